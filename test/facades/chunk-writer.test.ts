import { asSchema, type UIMessageChunk, uiMessageChunkSchema } from 'ai';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ToolPart } from '../../src/domain/transcript/message.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import type { RunUpdate } from '../../src/facades/run-updates.ts';
import { type ChunkWriterOptions, createChunkWriter, startChunk } from '../../src/facades/ui/chunk-writer.ts';
import type { UiFrame } from '../../src/facades/ui/ui-frame.ts';
import { UI_CHUNKS } from './ui-chunks.ts';

const OPTIONS: ChunkWriterOptions = { sessionId: 'ses_1', runId: 'run_1' };
const STATE = { usage: NO_USAGE, context: { used: 10, usable: 100 }, waiting: 0 };
const call = (output: ToolPart['output']): ToolPart => ({
  type: 'tool',
  toolCallId: 'x',
  toolName: 'look',
  input: {},
  state: 'completed',
  ...(output && { output }),
});

const write = (updates: readonly RunUpdate[], options = OPTIONS): UiFrame[] => {
  const toFrames = createChunkWriter(options);
  return updates.flatMap(toFrames);
};

const id = fc.constantFrom('call_a', 'call_b');
const update = fc.oneof(
  fc.record({ kind: fc.constant('step-started' as const), step: fc.nat({ max: 3 }) }),
  fc.constant<RunUpdate>({ kind: 'step-reset' }),
  fc.constant<RunUpdate>({ kind: 'answer-ended' }),
  fc.constant<RunUpdate>({ kind: 'alive' }),
  fc.record({
    kind: fc.constant('delta' as const),
    type: fc.constantFrom('text' as const, 'reasoning' as const),
    text: fc.string({ minLength: 1 }),
  }),
  fc.record({ kind: fc.constant('tool-call' as const), id, toolName: fc.constant('look'), args: fc.jsonValue() }),
  fc.record({
    kind: fc.constant('tool-result' as const),
    id,
    part: fc.constantFrom(
      null,
      call(undefined),
      call({ type: 'json', value: { a: 1 } }),
      call({ type: 'error-text', value: 'no' }),
      call({ type: 'execution-denied' }),
    ),
  }),
  fc.record({
    kind: fc.constant('tool-input' as const),
    id,
    toolName: fc.constant('look'),
    offset: fc.nat({ max: 4 }),
    text: fc.string({ maxLength: 3 }),
  }),
  fc.record({ kind: fc.constant('queued' as const), position: fc.nat() }),
  fc.record({ kind: fc.constant('compacting' as const), tokensBefore: fc.nat() }),
  fc.record({ kind: fc.constant('pruned' as const), prunedCount: fc.nat(), savedTokens: fc.nat() }),
  fc.record({
    kind: fc.constant('answered' as const),
    id,
    answer: fc.constantFrom('approve' as const, 'deny' as const, 'output' as const, 'expired' as const),
  }),
  fc.record({
    kind: fc.constant('step-completed' as const),
    finishReason: fc.constant('stop' as const),
    usage: fc.constant(NO_USAGE),
    context: fc.constantFrom(null, { used: 1, usable: 2 }),
  }),
  fc.record({
    kind: fc.constant('ended' as const),
    end: fc.constantFrom(
      { status: 'completed', finishReason: 'aborted' } as const,
      { status: 'cancelled' } as const,
      { status: 'requires_action' } as const,
      { status: 'incomplete', reason: 'max_steps' } as const,
      { status: 'parked', after: 'failed' } as const,
      { status: 'failed', error: { code: 'auth', message: 'no' } } as const,
    ),
    state: fc.constant(STATE),
  }),
) as fc.Arbitrary<RunUpdate>;

/** The client throws at a delta or an end of a part whose start it has not seen. */
function expectInOrder(frame: UIMessageChunk, open: Set<string>): void {
  if (frame.type === 'reset-step') open.clear();
  if (frame.type === 'text-start' || frame.type === 'reasoning-start') open.add(frame.id);
  if (frame.type === 'text-delta' || frame.type === 'reasoning-delta') expect(open).toContain(frame.id);
  if (frame.type === 'text-end' || frame.type === 'reasoning-end') expect(open.delete(frame.id)).toBe(true);
}

const chunksOf = (frames: readonly UiFrame[]): UIMessageChunk[] =>
  frames.flatMap((frame) => ('comment' in frame ? [] : [frame]));

describe('a UI message stream', () => {
  test('is one that the client takes, whatever happens in the run', async () => {
    const { validate } = asSchema(uiMessageChunkSchema);
    const listed = new Set(UI_CHUNKS.map(({ chunk }) => chunk.type));
    await fc.assert(
      fc.asyncProperty(fc.array(update), async (updates) => {
        const open = new Set<string>();
        const frames = [startChunk(OPTIONS), ...write(updates)];
        for (const frame of frames) if ('comment' in frame) expect(frame.comment).not.toContain('\n');
        for (const chunk of chunksOf(frames)) {
          expect(await validate?.(JSON.parse(JSON.stringify(chunk)))).toMatchObject({ success: true });
          expectInOrder(chunk, open);
          expect(listed).toContain(chunk.type);
        }
      }),
    );
  });

  test('joins deltas of one kind to one part, and has all their characters', () => {
    const delta = fc.record({
      kind: fc.constant('delta' as const),
      type: fc.constantFrom('text' as const, 'reasoning' as const),
      text: fc.string({ minLength: 1 }),
    });
    fc.assert(
      fc.property(fc.array(delta), (deltas) => {
        const frames = chunksOf(write([...deltas, { kind: 'answer-ended' }]));
        const told = frames.flatMap((frame) => ('delta' in frame ? [frame.delta] : [])).join('');
        expect(told).toBe(deltas.map(({ text }) => text).join(''));
        const changes = deltas.filter(({ type }, at) => deltas[at - 1]?.type !== type).length;
        expect(frames.filter(({ type }) => type.endsWith('-start'))).toHaveLength(changes);
        expect(frames.filter(({ type }) => type.endsWith('-end'))).toHaveLength(changes);
      }),
    );
  });

  test('asks for approvals, and answers only those that the client was asked for', () => {
    const action = { id: 'call_a', messageId: 'msg_1', toolName: 'deploy', args: {} };
    const asked: RunUpdate = {
      kind: 'asked',
      seq: 9,
      childRunId: null,
      calls: [
        { ...action, kind: 'approval' },
        { ...action, id: 'call_b', kind: 'output' },
      ],
    };
    const answered = (id: string, answer: 'approve' | 'deny'): RunUpdate => ({ kind: 'answered', id, answer });
    expect(write([asked, answered('call_a', 'approve'), answered('call_b', 'deny')])).toEqual([
      { type: 'tool-approval-request', approvalId: 'call_a', toolCallId: 'call_a' },
      { type: 'tool-approval-response', approvalId: 'call_a', approved: true },
    ]);
    expect(write([answered('call_c', 'deny')], { ...OPTIONS, approvals: new Map([['call_c', 'call_c']]) })).toEqual([
      { type: 'tool-approval-response', approvalId: 'call_c', approved: false },
    ]);
  });

  test('shows the calls of a child as a step, with the questions about them', () => {
    const action = { id: 'call_a', messageId: 'msg_1', toolName: 'deploy', args: { to: 'prod' } };
    const asked = (calls: Extract<RunUpdate, { kind: 'asked' }>['calls']): RunUpdate => ({
      ...{ kind: 'asked', seq: 9, childRunId: 'run_b', calls },
    });
    const calls = [
      { ...action, kind: 'approval' },
      { ...action, id: 'call_b', kind: 'output' },
    ] as const;
    expect(write([asked(calls), asked([])])).toEqual([
      { type: 'start-step' },
      { type: 'tool-input-start', toolCallId: 'call_a', toolName: 'deploy' },
      { type: 'tool-input-available', toolCallId: 'call_a', toolName: 'deploy', input: { to: 'prod' } },
      { type: 'tool-input-start', toolCallId: 'call_b', toolName: 'deploy' },
      { type: 'tool-input-available', toolCallId: 'call_b', toolName: 'deploy', input: { to: 'prod' } },
      { type: 'tool-approval-request', approvalId: 'call_a', toolCallId: 'call_a' },
    ]);
  });

  test('asks about every unknown outcome of a call anew', () => {
    const action = { id: 'call_a', messageId: 'msg_1', toolName: 'deploy', args: {}, kind: 'unknown_outcome' } as const;
    const ask = (seq: number): RunUpdate => ({ kind: 'asked', seq, calls: [action], childRunId: null });
    const approved: RunUpdate = { kind: 'answered', id: 'call_a', answer: 'approve' };
    expect(write([ask(4), approved, ask(9), approved])).toMatchObject([
      { type: 'tool-approval-request', approvalId: 'call_a.4', toolCallId: 'call_a' },
      { type: 'tool-approval-response', approvalId: 'call_a.4' },
      { type: 'tool-approval-request', approvalId: 'call_a.9', toolCallId: 'call_a' },
      { type: 'tool-approval-response', approvalId: 'call_a.9' },
    ]);
  });

  test('tells the input of a call as it is written, nothing of it after a piece that is missing, and drops what stays half', () => {
    const input = (id: string, offset: number, text: string): RunUpdate => ({
      kind: 'tool-input',
      ...{ id, toolName: 'look', offset, text },
    });
    const updates: RunUpdate[] = [
      input('call_a', 0, ''),
      input('call_a', 0, '{"at"'),
      input('call_b', 9, 'late'),
      input('call_b', 13, 'r'),
      input('call_a', 5, ':1}'),
      { kind: 'tool-call', id: 'call_a', toolName: 'look', args: { at: 1 } },
      { kind: 'step-completed', finishReason: 'aborted', usage: NO_USAGE, context: null },
    ];
    expect(write(updates)).toEqual([
      { type: 'tool-input-start', toolCallId: 'call_a', toolName: 'look' },
      { type: 'tool-input-delta', toolCallId: 'call_a', inputTextDelta: '{"at"' },
      { type: 'tool-input-start', toolCallId: 'call_b', toolName: 'look' },
      { type: 'tool-input-delta', toolCallId: 'call_a', inputTextDelta: ':1}' },
      { type: 'tool-input-available', toolCallId: 'call_a', toolName: 'look', input: { at: 1 } },
      {
        type: 'tool-input-error',
        ...{ toolCallId: 'call_b', toolName: 'look', input: {}, errorText: 'The call was not finished.' },
      },
      { type: 'finish-step' },
    ]);
  });

  test('tells of a compaction and of a prune in parts that no message keeps', () => {
    const updates: RunUpdate[] = [
      { kind: 'compacting', tokensBefore: 900 },
      { kind: 'compacted', tokensBefore: 900, tokensAfter: 300 },
      { kind: 'pruned', prunedCount: 2, savedTokens: 80 },
    ];
    expect(write(updates)).toMatchObject([
      { type: 'data-compaction', transient: true, data: { text: '⚙️ Compacting…', tokensBefore: 900 } },
      { type: 'data-compaction', transient: true, data: { text: '✅ Compacted: 900 → 300 tokens', tokensAfter: 300 } },
      { type: 'data-pruning', transient: true, data: { text: '🧹 Cleared 2 old tool outputs: 80 tokens' } },
    ]);
  });
});
