import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  estimateMessage,
  estimateToolCall,
  estimateToolResult,
  totalOf,
} from '../../../src/domain/context/meter/message-tokens.ts';
import { estimateText } from '../../../src/domain/context/meter/tokens.ts';
import { NO_OUTPUT } from '../../../src/domain/model/model-frames.ts';
import { toModelMessages } from '../../../src/domain/model/model-messages.ts';
import type { Part, ToolPart } from '../../../src/domain/transcript/message.ts';
import { anyModel, anyView } from '../view-arbitrary.ts';
import { assistantOf, callOf, MODEL, signedReasoning, textOf, userOf } from './measure-view.ts';

/** One token per character, so that a test can tell from the numbers which texts were counted. */
const byLength = (text: string): number => text.length;
const estimate = (message: Parameters<typeof estimateMessage>[0], model = MODEL) =>
  estimateMessage(message, byLength, { model });

describe('the tokens of a message', () => {
  test('are those of its text and a frame', () => {
    expect(estimate(userOf(1, textOf('x'.repeat(100))))).toMatchObject({ user: 104, assistant: 0 });
    expect(estimate(assistantOf(1, textOf('x'.repeat(100))))).toMatchObject({ user: 0, assistant: 104 });
  });

  test('of a call are split into the call and its result, 30 to 60 of them around the texts', () => {
    const { toolCalls, toolResults } = estimate(assistantOf(1, callOf({ path: 'a.ts' }, 'x'.repeat(1_000))));
    const frames = toolCalls - 'read'.length - '{"path":"a.ts"}'.length + (toolResults - 1_000);
    expect(toolResults).toBeGreaterThan(1_000);
    expect(toolResults).toBeLessThan(1_020);
    expect(frames).toBeGreaterThanOrEqual(30);
    expect(frames).toBeLessThanOrEqual(60);
  });

  test('of a call and of its result can be had alone: what a prune frees is one of the two', () => {
    const call = callOf({ path: 'a.ts' }, 'x'.repeat(1_000));
    expect(estimate(assistantOf(1, call))).toMatchObject({
      toolCalls: estimateToolCall(call, byLength),
      toolResults: estimateToolResult(call, byLength),
    });
  });

  test('of a call without an outcome are those of the explanation that the model reads', () => {
    const running: Partial<ToolPart> = { state: 'running' };
    const { toolResults } = estimate(assistantOf(1, callOf({}, 'x'.repeat(5_000), running)));
    expect(toolResults).toBeGreaterThan(9);
    expect(toolResults).toBeLessThan(200);
  });

  test('of a call without an outcome are not those of an output that it has all the same', () => {
    const ofUnknown = (output: ToolPart['output']): number =>
      estimate(assistantOf(1, callOf({}, '', { state: 'unknown', output }))).toolResults;
    const value = [{ type: 'text' as const, text: 'x'.repeat(5_000) }];
    expect(ofUnknown({ type: 'content', value })).toBe(ofUnknown({ type: 'text', value: 'ok' }));
  });

  test('of content that says nothing are those of the words for that', () => {
    const output = { type: 'content' as const, value: [{ type: 'text' as const, text: ' ' }] };
    expect(estimate(assistantOf(1, callOf({}, '', { output }))).toolResults).toBe(9 + NO_OUTPUT.length);
  });

  test('of a JSON result are those of its text', () => {
    const output = { type: 'json' as const, value: { rows: [1, 2, 3] } };
    const { toolResults } = estimate(assistantOf(1, callOf({}, '', { output })));
    expect(toolResults).toBe(9 + '{"rows":[1,2,3]}'.length);
  });

  test('hold the labels of queued messages that one step drained together', () => {
    const text = { type: 'text' as const, text: 'left' };
    const image = { type: 'file' as const, mediaType: 'image/png', url: '@blob:1' };
    const alone = estimate(userOf(1, text, image));
    const drained = estimate(userOf(1, { ...text, queuedNo: 1 }, { ...image, queuedNo: 2 }));
    expect(drained).toEqual({ ...alone, user: alone.user + 'First: '.length + 'Also:'.length });
  });

  test('hold a summary as the model is shown it', () => {
    const { summary, user } = estimate(userOf(1, { type: 'compaction', text: 'x'.repeat(500) }));
    expect(summary).toBeGreaterThan(500);
    expect(user).toBeLessThan(10);
  });

  test('of what is not sent are none', () => {
    const parts: Part[] = [{ type: 'step-start' }, { type: 'source', sourceId: '1' }, textOf('  ')];
    expect(totalOf(estimate(assistantOf(1, ...parts)))).toBe(totalOf(estimate(assistantOf(1))));
  });
});

describe('reasoning', () => {
  const reasoning = signedReasoning('x'.repeat(800));

  test('counts where it goes back to the model that wrote it', () => {
    expect(estimate(assistantOf(1, reasoning, textOf('done'))).reasoning).toBe(800);
    expect(estimate(assistantOf(1, reasoning, callOf({}, 'ok'))).reasoning).toBe(800);
  });

  test.each([
    ['another model', assistantOf(1, reasoning, textOf('done')), 'openai/gpt-5.4'],
    ['no signature', assistantOf(1, { type: 'reasoning', text: 'x'.repeat(800) }, textOf('done')), MODEL],
    ['nothing behind it', assistantOf(1, textOf('done'), reasoning), MODEL],
  ])('does not count with %s', (_, message, model) => {
    expect(estimate(message, model).reasoning).toBe(0);
  });

  test('that is encrypted counts by what is hidden, not by the summary beside it', () => {
    const hidden: Part = {
      type: 'reasoning',
      text: 'short summary',
      providerMetadata: { openai: { itemId: 'rs_1', reasoningEncryptedContent: 'g'.repeat(20_000) } },
    };
    expect(estimate(assistantOf(1, hidden, textOf('done'))).reasoning).toBeGreaterThan(3_000);
  });
});

describe('files', () => {
  const file = (mediaType: string, url: string): Part => ({ type: 'file', mediaType, url });
  const filesOf = (part: Part): number => estimate(userOf(1, part)).files;

  test.each([
    ['an image, whatever its bytes', file('image/png', `data:image/png;base64,${'A'.repeat(400_000)}`), 1_500],
    ['an image behind a URL', file('image/jpeg', 'https://example.com/a.jpg'), 1_500],
    ['a stored image', file('image/webp', '@blob:1'), 1_500],
    ['a PDF of a page', file('application/pdf', `data:application/pdf;base64,${'A'.repeat(40_000)}`), 2_000],
    ['a PDF of 150 kB', file('application/pdf', `data:application/pdf;base64,${'A'.repeat(199_000)}`), 6_000],
    ['a PDF that only the provider reads', file('application/pdf', 'https://example.com/a.pdf'), 20_000],
  ])('%s', (_, part, tokens) => {
    expect(filesOf(part)).toBe(tokens);
  });

  test('that cannot be sent count as the text that stands for them', () => {
    expect(filesOf(file('audio/wav', 'https://example.com/a.wav'))).toBeGreaterThan(50);
    expect(filesOf(file('audio/wav', `data:audio/wav;base64,${'A'.repeat(400_000)}`))).toBeLessThan(200);
    expect(filesOf(file('text/csv', '@blob:1'))).toBeLessThan(200);
  });

  test('of the assistant are not sent', () => {
    expect(estimate(assistantOf(1, file('image/png', 'https://example.com/a.png'))).files).toBe(0);
  });
});

/** Every text that a request carries. */
function textsOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    (key === 'text' || key === 'value') && typeof inner === 'string' ? [inner] : textsOf(inner),
  );
}

test('an estimate covers every text that the model is shown, apart from notices between messages', () => {
  fc.assert(
    fc.property(anyView, anyModel, (view, model) => {
      const shown = textsOf(toModelMessages(view, { model })).filter((text) => !text.startsWith('[System notice'));
      const counted = view.reduce((sum, message) => sum + totalOf(estimateMessage(message, byLength, { model })), 0);
      expect(counted).toBeGreaterThanOrEqual(shown.reduce((sum, text) => sum + text.length, 0));
    }),
  );
});

test('no kind is ever negative', () => {
  fc.assert(
    fc.property(anyView, anyModel, (view, model) => {
      for (const message of view) {
        const tokens = estimateMessage(message, estimateText, { model });
        expect(Object.values(tokens).every((value) => Number.isInteger(value) && value >= 0)).toBe(true);
      }
    }),
  );
});
