import { describe, expect, it } from 'vitest';
import type { Part } from '../../src/domain/transcript/message.ts';
import type { AnswerPart } from '../../src/model/stream-answer.ts';
import { createStreamProcessor, type StreamProcessor } from '../../src/model/stream-processor.ts';

type Passed = readonly ['text' | 'reasoning', number, string];

/** Parts as the SDK gives them. The cast is needed because the SDK's types demand more than a provider sends. */
function passOn(processor: StreamProcessor, parts: readonly object[]): void {
  for (const part of parts) processor.onPart(part as AnswerPart);
}

function processed(parts: readonly object[]) {
  const passed: Passed[] = [];
  const processor = createStreamProcessor((...delta) => void passed.push(delta));
  passOn(processor, parts);
  return { passed, parts: processor.partial().slice(1) };
}

const call = { type: 'tool-call', toolCallId: 'call_1', toolName: 'look', input: { at: 1 } } as const;
const ownCall = { ...call, providerExecuted: true, dynamic: true } as const;
const result = { toolCallId: 'call_1', toolName: 'look', input: { at: 1 } };
const image = { mediaType: 'image/png', base64: 'AAAA' };

type Row = Readonly<{
  part: object;
  /** Parts that came before `part` in the stream. */
  before?: readonly object[];
  parts?: readonly Partial<Part>[];
  passed?: readonly Passed[];
}>;

/** Every type of part that the SDK can stream: a new one does not compile without a row. */
const ROWS: Readonly<Record<AnswerPart['type'], Row>> = {
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
  error: { part: { type: 'error', error: new Error('the provider failed') } },
  'model-call-start': { part: { type: 'model-call-start', warnings: [] } },
  'model-call-response-metadata': { part: { type: 'model-call-response-metadata', id: 'r' } },
  'model-call-end': { part: { type: 'model-call-end', finishReason: 'stop' } },
  custom: { part: { type: 'custom', kind: 'openai.compaction' } },
  ping: { part: { type: 'ping' } },
  raw: { part: { type: 'raw', rawValue: {} } },
};

it('passes inputs of calls on as they are written, each at the place that its call gets', () => {
  const passed: unknown[] = [];
  const ignore = () => undefined;
  const processor = createStreamProcessor(ignore, (streamed, text) => void passed.push([streamed, text]));
  const start = (id: string, more = {}) => ({ type: 'tool-input-start', id, toolName: 'look', ...more });
  const delta = (id: string, text: string) => ({ type: 'tool-input-delta', id, delta: text });
  passOn(processor, [
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
  ]);
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
  it.each(Object.entries(ROWS))('after %s', (_type, { part, before = [], parts = [], passed = [] }) => {
    const outcome = processed([...before, part]);
    expect(outcome.parts).toMatchObject(parts);
    expect(outcome.parts.length).toBe(parts.length);
    expect(outcome.passed).toEqual(passed);
  });

  it('is nothing but the start of the step when nothing came', () => {
    const processor = createStreamProcessor(() => undefined);
    expect(processor.partial()).toEqual([{ type: 'step-start' }]);
  });

  it('keeps texts apart that come in turns, and a reasoning of the same id', () => {
    const outcome = processed([
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

  it('passes nothing on that is empty, and leaves empty texts out', () => {
    const outcome = processed([{ type: 'text-start', id: 'a' }, { type: 'text-delta', id: 'a', text: '' }, call]);
    expect(outcome.passed).toEqual([]);
    expect(outcome.parts.map(({ type }) => type)).toEqual(['tool']);
  });

  it('leaves the results of our own tools to the tool runner', () => {
    const outcome = processed([call, { type: 'tool-result', ...result, output: 'mine' }]);
    expect(outcome.parts).toMatchObject([{ type: 'tool', state: 'pending' }]);
  });

  it('has an outcome already for a call that the SDK found invalid', () => {
    const outcome = processed([{ ...call, invalid: true, dynamic: true, error: new Error('no such tool') }]);
    expect(outcome.parts).toMatchObject([{ state: 'error', output: { value: 'no such tool' } }]);
  });
});
