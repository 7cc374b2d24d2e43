import type { TextStreamPart, ToolSet } from 'ai';
import { describe, expect, it } from 'vitest';
import type { Part } from '../../src/domain/transcript/message.ts';
import { createStreamProcessor, type StreamEnd } from '../../src/model/stream-processor.ts';

type StreamPart = TextStreamPart<ToolSet>;
type Passed = readonly ['text' | 'reasoning', number, string];

/** Parts as the SDK gives them. The cast is needed because the SDK's types demand more than a provider sends. */
async function* streamOf(parts: readonly object[], thrown?: Error): AsyncGenerator<StreamPart> {
  for (const part of parts) yield part as StreamPart;
  if (thrown !== undefined) throw thrown;
}

async function processed(parts: readonly object[], thrown?: Error) {
  const passed: Passed[] = [];
  const processor = createStreamProcessor((...delta) => void passed.push(delta));
  const end: StreamEnd = await processor.read(streamOf(parts, thrown));
  return { end, passed, parts: processor.partial().slice(1) };
}

const call = { type: 'tool-call', toolCallId: 'call_1', toolName: 'look', input: { at: 1 } } as const;
const ownCall = { ...call, providerExecuted: true, dynamic: true } as const;
const result = { toolCallId: 'call_1', toolName: 'look', input: { at: 1 } };
const image = { mediaType: 'image/png', base64: 'AAAA' };
const failure = new Error('the provider failed');

type Row = Readonly<{
  part: object;
  /** Parts that came before `part` in the stream. */
  before?: readonly object[];
  parts?: readonly Partial<Part>[];
  passed?: readonly Passed[];
  end?: StreamEnd;
}>;

/** Every type of part that the SDK can stream: a new one does not compile without a row. */
const ROWS: Readonly<Record<StreamPart['type'], Row>> = {
  'text-start': { part: { type: 'text-start', id: '1' } },
  'text-delta': {
    part: { type: 'text-delta', id: '1', text: 'Hi' },
    parts: [{ type: 'text', text: 'Hi' }],
    passed: [['text', 1, 'Hi']],
  },
  'text-end': { part: { type: 'text-end', id: '1' } },
  'reasoning-start': { part: { type: 'reasoning-start', id: '1' } },
  'reasoning-delta': {
    part: { type: 'reasoning-delta', id: '1', text: 'Hm' },
    parts: [{ type: 'reasoning', text: 'Hm' }],
    passed: [['reasoning', 1, 'Hm']],
  },
  'reasoning-end': { part: { type: 'reasoning-end', id: '1' } },
  'tool-input-start': { part: { type: 'tool-input-start', id: 'call_1', toolName: 'look' } },
  'tool-input-delta': { part: { type: 'tool-input-delta', id: 'call_1', delta: '{"at"' } },
  'tool-input-end': { part: { type: 'tool-input-end', id: 'call_1' } },
  'tool-call': {
    part: call,
    parts: [{ type: 'tool', toolCallId: 'call_1', toolName: 'look', input: { at: 1 }, state: 'pending' }],
  },
  'tool-result': {
    before: [ownCall],
    part: { type: 'tool-result', ...result, output: 'found' },
    parts: [{ type: 'tool', state: 'completed', output: { type: 'text', value: 'found' } }],
  },
  'tool-error': {
    before: [ownCall],
    part: { type: 'tool-error', ...result, error: 'gone' },
    parts: [{ type: 'tool', state: 'error', output: { type: 'error-text', value: 'gone' } }],
  },
  'tool-output-denied': { part: { type: 'tool-output-denied', toolCallId: 'call_1', toolName: 'look' } },
  'tool-approval-request': { part: { type: 'tool-approval-request', approvalId: 'a', toolCall: call } },
  'tool-approval-response': { part: { type: 'tool-approval-response', approvalId: 'a', approved: true } },
  source: {
    part: { type: 'source', sourceType: 'url', id: 's1', url: 'https://a.example' },
    parts: [{ type: 'source', sourceId: 's1', url: 'https://a.example' }],
  },
  file: {
    part: { type: 'file', file: image },
    parts: [{ type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AAAA' }],
  },
  'reasoning-file': {
    part: { type: 'reasoning-file', file: image },
    parts: [{ type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AAAA' }],
  },
  abort: { part: { type: 'abort', reason: 'cancelled' }, end: { kind: 'aborted' } },
  error: { part: { type: 'error', error: failure }, end: { kind: 'failed', error: failure } },
  start: { part: { type: 'start' } },
  'start-step': { part: { type: 'start-step', request: {}, warnings: [] } },
  'finish-step': { part: { type: 'finish-step', finishReason: 'stop' } },
  finish: { part: { type: 'finish', finishReason: 'stop' } },
  'steering-message': { part: { type: 'steering-message', id: 'm', message: 'go left', stepNumber: 0 } },
  custom: { part: { type: 'custom', kind: 'openai.compaction' } },
  ping: { part: { type: 'ping' } },
  raw: { part: { type: 'raw', rawValue: {} } },
};

it('passes inputs of calls on as they are written, each at the place that its call gets', async () => {
  const passed: unknown[] = [];
  const ignore = () => undefined;
  const processor = createStreamProcessor(ignore, ignore, (streamed, text) => void passed.push([streamed, text]));
  const start = (id: string, more = {}) => ({ type: 'tool-input-start', id, toolName: 'look', ...more });
  const delta = (id: string, text: string) => ({ type: 'tool-input-delta', id, delta: text });
  await processor.read(
    streamOf([
      { type: 'text-delta', id: '1', text: 'I look.' },
      start('theirs', { providerExecuted: true }),
      delta('theirs', '{}'),
      { ...ownCall, toolCallId: 'theirs' },
      start('a'),
      delta('a', '{"at"'),
      start('b'),
      delta('a', ':1}'),
      { ...call, toolCallId: 'a' },
      delta('b', '{}'),
      { ...call, toolCallId: 'b' },
    ]),
  );
  const at = (toolCallId: string, index: number) => ({ index, toolCallId, toolName: 'look' });
  expect(passed).toEqual([
    [null, '{}'],
    [at('a', 3), ''],
    [at('a', 3), '{"at"'],
    [at('b', 4), ''],
    [at('a', 3), ':1}'],
    [at('b', 4), '{}'],
  ]);
  const ids = processor.partial().map((part) => (part.type === 'tool' ? part.toolCallId : part.type));
  expect(ids).toEqual(['step-start', 'text', 'theirs', 'a', 'b']);
});

describe('what a stream leaves when it breaks off', () => {
  it.each(Object.entries(ROWS))('after %s', async (_type, { part, before = [], parts = [], passed = [], end }) => {
    const outcome = await processed([...before, part]);
    expect(outcome.parts).toMatchObject(parts);
    expect(outcome.parts.length).toBe(parts.length);
    expect(outcome.passed).toEqual(passed);
    expect(outcome.end).toEqual(end ?? { kind: 'ended' });
  });

  it('is nothing but the start of the step when nothing came', async () => {
    const processor = createStreamProcessor(() => undefined);
    expect(await processor.read(streamOf([]))).toEqual({ kind: 'ended' });
    expect(processor.partial()).toEqual([{ type: 'step-start' }]);
  });

  it('keeps texts apart that come in turns, and a reasoning of the same id', async () => {
    const outcome = await processed([
      { type: 'text-start', id: 'a' },
      { type: 'text-start', id: 'b' },
      { type: 'text-delta', id: 'a', text: 'A1' },
      { type: 'text-delta', id: 'b', text: 'B1' },
      { type: 'reasoning-delta', id: 'a', text: 'R' },
      { type: 'text-delta', id: 'a', text: 'A2' },
      { type: 'text-end', id: 'a' },
      { type: 'text-start', id: 'a' },
      { type: 'text-delta', id: 'a', text: 'A3' },
    ]);
    expect(outcome.parts).toEqual([
      { type: 'text', text: 'A1A2' },
      { type: 'text', text: 'B1' },
      { type: 'reasoning', text: 'R' },
      { type: 'text', text: 'A3' },
    ]);
    expect(outcome.passed.map(([, index, text]) => [index, text])).toEqual([
      [1, 'A1'],
      [2, 'B1'],
      [3, 'R'],
      [1, 'A2'],
      [4, 'A3'],
    ]);
  });

  it('passes nothing on that is empty, and leaves empty texts out', async () => {
    const outcome = await processed([{ type: 'text-start', id: 'a' }, { type: 'text-delta', id: 'a', text: '' }, call]);
    expect(outcome.passed).toEqual([]);
    expect(outcome.parts.map(({ type }) => type)).toEqual(['tool']);
  });

  it('leaves the results of our own tools to the tool runner', async () => {
    const outcome = await processed([call, { type: 'tool-result', ...result, output: 'mine' }]);
    expect(outcome.parts).toMatchObject([{ type: 'tool', state: 'pending' }]);
  });

  it('has an outcome already for a call that the SDK found invalid', async () => {
    const outcome = await processed([{ ...call, invalid: true, dynamic: true, error: new Error('no such tool') }]);
    expect(outcome.parts).toMatchObject([{ state: 'error', output: { value: 'no such tool' } }]);
  });
});

describe('how a stream ended', () => {
  it('is a failure when the iterator throws, and what came before is kept', async () => {
    const outcome = await processed([{ type: 'text-delta', id: '1', text: 'Half' }], failure);
    expect(outcome.end).toEqual({ kind: 'failed', error: failure });
    expect(outcome.parts).toEqual([{ type: 'text', text: 'Half' }]);
  });

  it('is told by the first of several errors: the later ones only follow from it', async () => {
    const outcome = await processed(
      [
        { type: 'error', error: failure },
        { type: 'error', error: new Error('second') },
      ],
      new Error('third'),
    );
    expect(outcome.end).toEqual({ kind: 'failed', error: failure });
  });

  it('is an abort even when the abort made something fail', async () => {
    const outcome = await processed([{ type: 'abort' }, { type: 'error', error: failure }], new Error('aborted'));
    expect(outcome.end).toEqual({ kind: 'aborted' });
  });
});
