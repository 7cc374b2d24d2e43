import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { type Completion, createCompletionWriter } from '../../src/facades/openai/completion-writer.ts';
import type { RunEnd, RunUpdate } from '../../src/facades/run-updates.ts';

const ended = (end: RunEnd): RunUpdate => ({
  kind: 'ended',
  end,
  state: { usage: NO_USAGE, context: null, waiting: 0, output: null },
});
const STOP = ended({ status: 'completed', finishReason: 'stop' });
const said = (text: string): RunUpdate => ({ kind: 'delta', type: 'text', text });
const step = (n: number): RunUpdate => ({ kind: 'step-started', step: n });
const stepEnd: RunUpdate = { kind: 'step-completed', finishReason: 'stop', usage: NO_USAGE, context: null };

function write(
  updates: readonly RunUpdate[],
  showsCompaction = false,
): { text: string; completion: Completion | null } {
  const toPieces = createCompletionWriter({ showsCompaction, openActions: [], isJson: false });
  const pieces = updates.flatMap(toPieces);
  const completion = pieces.flatMap((piece) => (piece.kind === 'end' ? [piece.completion] : []))[0] ?? null;
  return { text: pieces.flatMap((piece) => (piece.kind === 'text' ? [piece.text] : [])).join(''), completion };
}

describe('a completion', () => {
  test('has the texts of all steps, and not what is thought', () => {
    const thought: RunUpdate = { kind: 'delta', type: 'reasoning', text: 'Hm.' };
    const { text, completion } = write([
      step(1),
      thought,
      said('One'),
      said('.'),
      stepEnd,
      step(2),
      stepEnd,
      step(3),
      said('Two.'),
      STOP,
    ]);
    expect(text).toBe('One.\n\nTwo.');
    expect(completion).toMatchObject({ text, finishReason: 'stop', calls: [], error: null });
  });

  test('of a step that is tried again tells each character of the same answer once', () => {
    const cut = fc.array(fc.string({ minLength: 1, maxLength: 4 }), { minLength: 1 });
    fc.assert(
      fc.property(cut, fc.array(fc.nat({ max: 10 }), { maxLength: 3 }), (answer, cuts) => {
        const attempts = cuts.flatMap((at) => [
          step(1),
          ...answer.slice(0, at).map(said),
          { kind: 'step-reset' } as const,
        ]);
        const { text, completion } = write([...attempts, step(1), ...answer.map(said), stepEnd, STOP]);
        // An attempt that got further than the next one told more already; the answer is the same nevertheless.
        expect(text).toBe(answer.join(''));
        expect(completion?.text).toBe(text);
      }),
    );
  });

  test('tells the whole of an answer that begins otherwise', () => {
    const { text } = write([
      step(1),
      said('Hello wor'),
      { kind: 'step-reset' },
      step(1),
      said('Hello'),
      said(', you'),
      STOP,
    ]);
    expect(text).toBe('Hello wor\n\nHello, you');
  });

  test('has the calls that wait for the client', () => {
    const action = { id: 'call_a', messageId: 'msg_1', toolName: 'weather', args: { city: 'Rome' } };
    const asked: RunUpdate = {
      kind: 'asked',
      seq: 9,
      childRunId: null,
      calls: [
        { ...action, kind: 'output' },
        { ...action, id: 'call_b', kind: 'output' },
        { ...action, id: 'call_c', kind: 'approval' },
      ],
    };
    const below: RunUpdate = {
      ...asked,
      seq: 10,
      childRunId: 'run_b',
      calls: [{ ...action, id: 'call_d', kind: 'output' }],
    };
    const { completion } = write([
      asked,
      below,
      { kind: 'answered', id: 'call_b', answer: 'output' },
      ended({ status: 'requires_action' }),
    ]);
    expect(completion).toMatchObject({
      finishReason: 'tool_calls',
      calls: [{ id: 'call_a', name: 'weather', args: '{"city":"Rome"}' }],
    });
  });

  test('says how it ended', () => {
    const end = (status: RunEnd) => write([said('x'), ended(status)]).completion;
    expect(end({ status: 'incomplete', reason: 'max_steps' })).toMatchObject({ finishReason: 'length', error: null });
    expect(end({ status: 'completed', finishReason: 'length' })).toMatchObject({ finishReason: 'length' });
    const error = { code: 'context_exhausted', message: 'full' } as const;
    expect(end({ status: 'incomplete', reason: 'context_exhausted', error })).toMatchObject({
      finishReason: null,
      error,
    });
    expect(end({ status: 'cancelled' })).toMatchObject({ error: { code: 'cancelled' } });
  });
});
