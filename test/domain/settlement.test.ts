import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FINISH_REASONS, type Part, type ToolPart } from '../../src/domain/message.ts';
import { planSettlement } from '../../src/domain/settlement.ts';
import { isSettledCall, TOOL_CALL_STATES, type ToolCallState } from '../../src/domain/tool-call.ts';

const call = (state: ToolCallState, toolName = 'bash'): ToolPart => ({
  type: 'tool',
  toolCallId: 'same id for all',
  toolName,
  input: {},
  state,
});
const traits = (toolName: string) => ({ idempotent: toolName === 'read' });
const plan = (parts: readonly Part[], finishReason: 'tool-calls' | null = 'tool-calls') =>
  planSettlement({ messageId: 'm', finishReason, usage: null, parts }, traits);

describe('what becomes of a step whose worker is gone', () => {
  it('drops a response that broke off, and asks the model again', () => {
    expect(plan([{ type: 'text', text: 'half' }, call('pending')], null)).toEqual({ kind: 'supersede' });
  });

  it('finishes a whole response without calls as it is', () => {
    expect(plan([{ type: 'text', text: 'done' }])).toEqual({
      kind: 'finish',
      markUnknown: [],
      run: [],
      report: [],
      refuse: [],
    });
  });

  it.each<[ToolCallState, string, { markUnknown: number; run: number; report: number }]>([
    ['pending', 'bash', { markUnknown: 0, run: 1, report: 0 }],
    ['pending', 'read', { markUnknown: 0, run: 1, report: 0 }],
    ['running', 'bash', { markUnknown: 1, run: 0, report: 1 }],
    ['running', 'read', { markUnknown: 1, run: 1, report: 0 }],
    ['unknown', 'bash', { markUnknown: 0, run: 0, report: 1 }],
    ['unknown', 'read', { markUnknown: 0, run: 1, report: 0 }],
    ['awaiting_approval', 'bash', { markUnknown: 0, run: 0, report: 0 }],
    ['completed', 'read', { markUnknown: 0, run: 0, report: 0 }],
    ['error', 'read', { markUnknown: 0, run: 0, report: 0 }],
    ['denied', 'read', { markUnknown: 0, run: 0, report: 0 }],
  ])('treats a %s call of %s as it must', (state, toolName, expected) => {
    const settled = plan([call(state, toolName)]);
    if (settled.kind !== 'finish') throw new Error('A whole response is finished.');
    expect({
      markUnknown: settled.markUnknown.length,
      run: settled.run.length,
      report: settled.report.length,
    }).toEqual(expected);
  });

  it('tells calls apart by their place, as their ids may be the same', () => {
    const settled = plan([call('completed'), { type: 'text', text: 'and' }, call('pending'), call('running')]);
    expect(settled).toMatchObject({ run: [{ index: 2 }], report: [{ index: 3 }], markUnknown: [{ index: 3 }] });
  });

  it('never runs a settled call, never repeats one that may have happened, and does each call once', () => {
    const part = fc.record({ state: fc.constantFrom(...TOOL_CALL_STATES), toolName: fc.constantFrom('read', 'bash') });
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), fc.constantFrom(...FINISH_REASONS), (calls, finishReason) => {
        const parts = calls.map(({ state, toolName }) => call(state, toolName));
        const settled = planSettlement({ messageId: 'm', finishReason, usage: null, parts }, traits);
        if (settled.kind !== 'finish') throw new Error('A whole response is finished.');
        const { run, report, refuse, markUnknown } = settled;
        const placed = [...run, ...report, ...refuse];
        expect(new Set(placed.map(({ index }) => index)).size).toBe(placed.length);
        for (const { part, index } of [...placed, ...markUnknown]) {
          expect(parts[index]).toBe(part);
          expect(isSettledCall(part.state)).toBe(false);
        }
        for (const { part } of run) expect(part.state === 'pending' || traits(part.toolName).idempotent).toBe(true);
        for (const { part } of refuse) expect(part.state).toBe('pending');
        for (const { part } of markUnknown) expect(part.state).toBe('running');
        const left = parts.filter(({ state }) => !isSettledCall(state) && state !== 'awaiting_approval');
        expect(placed).toHaveLength(left.length);
      }),
    );
  });

  it.each(FINISH_REASONS)(
    'starts calls of a response that ended with %s only where the SDK would have',
    (finishReason) => {
      const leftover = { messageId: 'm', finishReason, usage: null, parts: [call('pending')] };
      const whole = finishReason === 'stop' || finishReason === 'tool-calls';
      const [started, refused] = whole ? [1, 0] : [0, 1];
      const settled = planSettlement(leftover, traits);
      expect(settled).toMatchObject({ run: { length: started }, refuse: { length: refused } });
    },
  );
});
