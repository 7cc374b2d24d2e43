import type { ContentPart, LanguageModelUsage, ToolSet } from 'ai';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Part, partSchema } from '../../src/domain/transcript/message.ts';
import { toErrorOutput, toParts, toToolOutput, toUsage } from '../../src/model/response-parts.ts';
import { json } from '../domain/view-arbitrary.ts';

/** Content as the SDK gives it: its own types demand more than a provider sends. */
const content = (...items: readonly object[]) => items as ContentPart<ToolSet>[];

const providerMetadata = { openai: { itemId: 'rs_1', nested: { signature: ['x', 1, null] } } };
const call = { type: 'tool-call', toolCallId: 'call_1', toolName: 'look', input: { at: 1 }, dynamic: true } as const;
const image = { mediaType: 'image/png', base64: 'AAAA', uint8Array: new Uint8Array(3) };

describe('the parts of a response', () => {
  it.each<[string, object, Part | null]>([
    ['text', { type: 'text', text: 'Hi', providerMetadata }, { type: 'text', text: 'Hi', providerMetadata }],
    ['text without metadata', { type: 'text', text: 'Hi' }, { type: 'text', text: 'Hi' }],
    [
      'reasoning',
      { type: 'reasoning', text: 'Hm', providerMetadata },
      { type: 'reasoning', text: 'Hm', providerMetadata },
    ],
    [
      'a call',
      { ...call, providerMetadata },
      { type: 'tool', toolCallId: 'call_1', toolName: 'look', input: { at: 1 }, state: 'pending', providerMetadata },
    ],
    [
      'an invalid call',
      { ...call, input: '{"at":', invalid: true, error: new Error('no JSON') },
      {
        type: 'tool',
        toolCallId: 'call_1',
        toolName: 'look',
        input: '{"at":',
        state: 'error',
        output: { type: 'error-text', value: 'no JSON' },
      },
    ],
    [
      'a call that the provider runs',
      { ...call, providerExecuted: true },
      {
        type: 'tool',
        toolCallId: 'call_1',
        toolName: 'look',
        input: { at: 1 },
        state: 'pending',
        providerExecuted: true,
      },
    ],
    [
      'a file',
      { type: 'file', file: image, providerMetadata },
      { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AAAA', providerMetadata },
    ],
    [
      'a file of the reasoning',
      { type: 'reasoning-file', file: image },
      { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AAAA' },
    ],
    [
      'a page as source',
      { type: 'source', sourceType: 'url', id: 's1', url: 'https://a.example', title: 'A', providerMetadata },
      { type: 'source', sourceId: 's1', url: 'https://a.example', title: 'A', providerMetadata },
    ],
    [
      'a document as source',
      { type: 'source', sourceType: 'document', id: 's2', mediaType: 'application/pdf', title: 'B' },
      { type: 'source', sourceId: 's2', mediaType: 'application/pdf', title: 'B' },
    ],
    ['what only one provider knows', { type: 'custom', kind: 'openai.compaction' }, null],
  ])('hold %s', (_what, item, expected) => {
    const parts = toParts(content(item));
    expect(parts).toEqual([{ type: 'step-start' }, ...(expected === null ? [] : [expected])]);
    for (const part of parts) expect(partSchema.parse(part)).toEqual(part);
  });

  it('keep the order of the response', () => {
    const parts = toParts(content({ type: 'text', text: 'a' }, call, { type: 'reasoning', text: 'b' }, call));
    expect(parts.map(({ type }) => type)).toEqual(['step-start', 'text', 'tool', 'reasoning', 'tool']);
  });

  it('fold the result of the provider’s own tool into its call, with the metadata of both', () => {
    const result = { type: 'tool-result', toolCallId: 'call_1', toolName: 'look', input: {}, output: { found: 1 } };
    const own = { ...call, providerExecuted: true, providerMetadata };
    expect(toParts(content(own, { ...result, providerMetadata: { openai: { of: 'result' } } }))).toMatchObject([
      {},
      {
        state: 'completed',
        output: { type: 'json', value: { found: 1 } },
        providerMetadata,
        resultProviderMetadata: { openai: { of: 'result' } },
      },
    ]);
    const error = { type: 'tool-error', toolCallId: 'call_1', toolName: 'look', input: {}, error: new Error('gone') };
    expect(toParts(content(own, error))[1]).toMatchObject({
      state: 'error',
      output: { type: 'error-text', value: 'gone' },
    });
  });

  it('leave calls of our own tools to the tool runner, and results without a call alone', () => {
    const result = { type: 'tool-result', toolCallId: 'call_1', toolName: 'look', input: {}, output: 'mine' };
    expect(toParts(content(call, result))[1]).toMatchObject({ state: 'pending' });
    expect(toParts(content(result))).toEqual([{ type: 'step-start' }]);
  });
});

describe('what a tool returned', () => {
  it.each<[unknown, unknown]>([
    ['text', { type: 'text', value: 'text' }],
    ['', { type: 'text', value: '' }],
    [undefined, { type: 'json', value: null }],
    [null, { type: 'json', value: null }],
    [7n, { type: 'json', value: '7' }],
    [{ count: 9_007_199_254_740_993n }, { type: 'json', value: { count: '9007199254740993' } }],
    [Number.NaN, { type: 'json', value: null }],
    [() => 'x', { type: 'json', value: null }],
    [Symbol('x'), { type: 'json', value: null }],
    [
      { a: undefined, b: [undefined, () => 1] },
      { type: 'json', value: { b: [null, null] } },
    ],
    [new Date(0), { type: 'json', value: '1970-01-01T00:00:00.000Z' }],
    [new Map([[1, 2]]), { type: 'json', value: {} }],
  ])('%o becomes text or JSON', (value, output) => {
    expect(toToolOutput(value)).toEqual(output);
  });

  it('comes through unchanged when it is JSON already', () => {
    fc.assert(
      fc.property(json, (value) => {
        const type = typeof value === 'string' ? 'text' : 'json';
        expect(toToolOutput(value)).toEqual({ type, value });
      }),
    );
  });

  it('is refused when it has no JSON form', () => {
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    expect(() => toToolOutput(circular)).toThrow(TypeError);
  });
});

describe('what a tool threw', () => {
  const throwing = {
    get message(): string {
      throw new Error('hostile');
    },
  };
  it.each<[string, unknown, string]>([
    ['an error', new TypeError('no luck'), 'no luck'],
    ['an error without a message', new Error(), ''],
    ['a text', 'no luck', 'no luck'],
    ['nothing', undefined, 'undefined'],
    ['an object with a message', { message: 'no luck', secret: 1 }, 'no luck'],
    ['an object without one', { code: 7 }, '{"code":7}'],
    ['an object without a prototype', Object.create(null), '{}'],
    ['a symbol', Symbol('x'), 'Symbol(x)'],
    ['an error whose message is no text', Object.assign(new Error(), { message: undefined }), '{}'],
    ['an object that throws when it is looked at', throwing, 'The call failed.'],
    ['an object without a JSON form', { big: 1n }, 'The call failed.'],
  ])('is shown as text: %s', (_what, error, value) => {
    expect(toErrorOutput(error)).toEqual({ type: 'error-text', value });
  });

  it('never throws again, whatever it is', () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: true, withBigInt: true }), (thrown) => {
        expect(toErrorOutput(thrown)).toMatchObject({ type: 'error-text', value: expect.any(String) });
      }),
    );
  });
});

describe('the usage of a call', () => {
  const reported = (usage: Partial<LanguageModelUsage>): LanguageModelUsage => ({
    inputTokens: undefined,
    outputTokens: undefined,
    totalTokens: undefined,
    inputTokenDetails: { noCacheTokens: undefined, cacheReadTokens: undefined, cacheWriteTokens: undefined },
    outputTokenDetails: { textTokens: undefined, reasoningTokens: undefined },
    ...usage,
  });

  it('counts what is not reported as nothing, and sums up where there is no total', () => {
    expect(toUsage(reported({}))).toMatchObject({ inputTokens: 0, outputTokens: 0, totalTokens: 0 });
    expect(toUsage(reported({ inputTokens: 3, outputTokens: 4 })).totalTokens).toBe(7);
  });

  it('adds the cached tokens to nothing: they are part of the input', () => {
    const inputTokenDetails = { noCacheTokens: 2, cacheReadTokens: 5, cacheWriteTokens: 3 };
    const outputTokenDetails = { textTokens: 1, reasoningTokens: 3 };
    const usage = reported({
      inputTokens: 10,
      outputTokens: 4,
      totalTokens: 14,
      inputTokenDetails,
      outputTokenDetails,
    });
    expect(toUsage(usage)).toEqual({
      inputTokens: 10,
      outputTokens: 4,
      reasoningTokens: 3,
      cacheReadTokens: 5,
      cacheWriteTokens: 3,
      totalTokens: 14,
    });
  });
});
