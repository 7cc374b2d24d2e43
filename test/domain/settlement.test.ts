import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planAsks, planRuns, planSettlement, planStarts, type ToolTraits } from '../../src/domain/run/settlement.ts';
import { FINISH_REASONS, type Part, type ToolPart } from '../../src/domain/transcript/message.ts';
import type { CallAnswer, PlacedCall } from '../../src/domain/transcript/required-action.ts';
import { isSettledCall, TOOL_CALL_STATES, type ToolCallState } from '../../src/domain/transcript/tool-call.ts';

const call = (state: ToolCallState, toolName = 'bash'): ToolPart => ({
  type: 'tool',
  toolCallId: 'same id for all',
  toolName,
  input: {},
  state,
});
const traits: ToolTraits = (toolName) => ({
  idempotent: toolName === 'read',
  resumes: toolName === 'build',
  isClientSide: toolName === 'browser',
  asksWhenUnknown: toolName === 'pay',
});
/**
 * The plan's rule in other words: a new call may run if it needs no approval or has it; a call that may have begun,
 * only if it may be repeated.
 */
function mayRun({ part, index }: PlacedCall, answer: CallAnswer | undefined, toApprove: ReadonlySet<number>): boolean {
  const isApproved = answer?.kind === 'approve';
  if (part.state === 'pending') return isApproved || !(toApprove.has(index) || part.toolName === 'browser');
  return part.toolName === 'read' || (part.state === 'unknown' && isApproved);
}
const leftover = {
  messageId: 'm',
  usage: null,
  answers: new Map<number, CallAnswer>(),
  isPaid: false,
  outsideWork: new Map(),
  questions: new Map(),
} as const;
const plan = (parts: readonly Part[], finishReason: 'tool-calls' | null = 'tool-calls') =>
  planSettlement({ ...leftover, finishReason, parts }, traits);

describe('what becomes of a step whose worker is gone', () => {
  it('drops a response that broke off, and asks the model again', () => {
    expect(plan([{ type: 'text', text: 'half' }, call('pending')], null)).toEqual({ kind: 'supersede' });
  });

  it('finishes a whole response without calls as it is', () => {
    expect(plan([{ type: 'text', text: 'done' }])).toEqual({
      kind: 'finish',
      markUnknown: [],
      run: [],
      give: [],
      report: [],
      refuse: [],
      ask: [],
    });
  });

  it.each<[ToolCallState, string, { markUnknown: number; run: number; report: number; ask: number }]>([
    ['pending', 'bash', { markUnknown: 0, run: 1, report: 0, ask: 0 }],
    ['pending', 'read', { markUnknown: 0, run: 1, report: 0, ask: 0 }],
    ['pending', 'browser', { markUnknown: 0, run: 0, report: 0, ask: 1 }],
    ['running', 'bash', { markUnknown: 1, run: 0, report: 1, ask: 0 }],
    ['running', 'read', { markUnknown: 1, run: 1, report: 0, ask: 0 }],
    ['running', 'pay', { markUnknown: 1, run: 0, report: 0, ask: 1 }],
    ['unknown', 'bash', { markUnknown: 0, run: 0, report: 1, ask: 0 }],
    ['unknown', 'read', { markUnknown: 0, run: 1, report: 0, ask: 0 }],
    ['unknown', 'pay', { markUnknown: 0, run: 0, report: 0, ask: 1 }],
    ['awaiting_approval', 'bash', { markUnknown: 0, run: 0, report: 0, ask: 1 }],
    ['awaiting_output', 'browser', { markUnknown: 0, run: 0, report: 0, ask: 1 }],
    ['completed', 'read', { markUnknown: 0, run: 0, report: 0, ask: 0 }],
    ['error', 'read', { markUnknown: 0, run: 0, report: 0, ask: 0 }],
    ['denied', 'read', { markUnknown: 0, run: 0, report: 0, ask: 0 }],
  ])('treats a %s call of %s as it must', (state, toolName, expected) => {
    const settled = plan([call(state, toolName)]);
    if (settled.kind !== 'finish') throw new Error('A whole response is finished.');
    expect({
      markUnknown: settled.markUnknown.length,
      run: settled.run.length,
      report: settled.report.length,
      ask: settled.ask.length,
    }).toEqual(expected);
  });

  it('goes on with what a call has begun elsewhere, if its tool can', () => {
    const parts = [call('running', 'build'), call('running', 'bash'), call('running', 'build')];
    const outsideWork = new Map([0, 1].map((index) => [index, { taskId: 'a' }]));
    const settled = planSettlement({ ...leftover, finishReason: 'tool-calls', parts, outsideWork }, traits);
    expect(settled).toMatchObject({ run: [{ index: 0 }], report: [{ index: 1 }, { index: 2 }] });
  });

  it('tells calls apart by their place, as their ids may be the same', () => {
    const settled = plan([call('completed'), { type: 'text', text: 'and' }, call('pending'), call('running')]);
    expect(settled).toMatchObject({ run: [{ index: 2 }], report: [{ index: 3 }], markUnknown: [{ index: 3 }] });
  });

  it('asks before it runs what needs an approval, and not again once it was approved', () => {
    const parts = [call('pending'), call('pending'), call('pending', 'browser')];
    const approved = new Map<number, CallAnswer>([[1, { kind: 'approve' }]]);
    const settled = planSettlement(
      { ...leftover, finishReason: 'stop', parts, answers: approved },
      traits,
      new Set([0, 1]),
    );
    expect(settled).toMatchObject({
      run: [{ index: 1 }],
      ask: [
        { index: 0, kind: 'approval' },
        { index: 2, kind: 'output' },
      ],
    });
    expect(planAsks({ finishReason: 'length', parts }, traits, new Set([0, 1]))).toEqual([]);
  });

  it('does as was said of a call of unknown outcome, until it has been started again', () => {
    const answers = new Map<number, CallAnswer>([
      [0, { kind: 'approve' }],
      [1, { kind: 'approve' }],
      [2, { kind: 'output', output: 'paid' }],
    ]);
    const parts = [call('unknown', 'pay'), call('running', 'pay'), call('unknown', 'pay')];
    expect(planSettlement({ ...leftover, finishReason: 'stop', parts, answers }, traits)).toMatchObject({
      run: [{ index: 0 }],
      ask: [{ index: 1, kind: 'unknown_outcome' }],
      give: [{ index: 2, answer: { kind: 'output', output: 'paid' } }],
    });
  });

  it('never runs a settled call, never repeats one that may have happened, and does each call once', () => {
    const anyAnswer = fc.constantFrom<CallAnswer | null>(null, { kind: 'approve' }, { kind: 'output', output: 'done' });
    const part = fc.record({
      state: fc.constantFrom(...TOOL_CALL_STATES),
      toolName: fc.constantFrom('read', 'bash', 'browser', 'pay'),
      needsApproval: fc.boolean(),
      answer: anyAnswer,
    });
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), fc.constantFrom(...FINISH_REASONS), (calls, finishReason) => {
        const parts = calls.map(({ state, toolName }) => call(state, toolName));
        const answers = new Map(
          calls.flatMap(({ answer }, index) => (answer === null ? [] : [[index, answer] as const])),
        );
        const toApprove = new Set(calls.flatMap(({ needsApproval }, index) => (needsApproval ? [index] : [])));
        const settled = planSettlement({ ...leftover, finishReason, parts, answers }, traits, toApprove);
        if (settled.kind !== 'finish') throw new Error('A whole response is finished.');
        const { run, give, report, refuse, ask, markUnknown } = settled;
        const placed = [...run, ...give, ...report, ...refuse, ...ask];
        expect(new Set(placed.map(({ index }) => index)).size).toBe(placed.length);
        for (const { part: placedPart, index } of [...placed, ...markUnknown]) {
          expect(parts[index]).toBe(placedPart);
          expect(isSettledCall(placedPart.state)).toBe(false);
        }
        expect(run.filter((placedCall) => !mayRun(placedCall, answers.get(placedCall.index), toApprove))).toEqual([]);
        expect(new Set(refuse.map(({ part: { state } }) => state)).difference(new Set(['pending']))).toEqual(new Set());
        expect(markUnknown.map(({ part: { state } }) => state)).toEqual(markUnknown.map(() => 'running'));
        expect(placed).toHaveLength(parts.filter(({ state }) => !isSettledCall(state)).length);
      }),
    );
  });

  it.each(FINISH_REASONS)(
    'starts calls of a response that ended with %s only where none can be cut off',
    (finishReason) => {
      const whole = finishReason === 'stop' || finishReason === 'tool-calls';
      const [started, refused] = whole ? [1, 0] : [0, 1];
      const settled = planSettlement({ ...leftover, finishReason, parts: [call('pending')] }, traits);
      expect(settled).toMatchObject({ run: { length: started }, refuse: { length: refused } });
    },
  );
});

describe('the calls that run once their response is stored', () => {
  const parts = [
    { type: 'text', text: 'Look.' } as const,
    call('pending'),
    call('error'),
    { ...call('pending'), providerExecuted: true },
    call('pending'),
  ];

  it('are all that have no outcome, are not the provider’s and require no action', () => {
    const [, first] = parts;
    if (first?.type !== 'tool') throw new Error('the first part is text');
    const requiring = [{ index: 1, part: first, kind: 'approval' as const }];
    expect(planRuns({ finishReason: 'tool-calls', parts }, []).map(({ index }) => index)).toEqual([1, 4]);
    expect(planRuns({ finishReason: 'stop', parts }, requiring).map(({ index }) => index)).toEqual([4]);
  });

  it('are none of a response that was cut off', () => {
    expect(planRuns({ finishReason: 'length', parts }, [])).toEqual([]);
  });
});

describe('the calls that start with their response', () => {
  const starts = (parts: readonly Part[], lanes: number, finishReason: 'tool-calls' | 'length' = 'tool-calls') =>
    planStarts({ finishReason, parts }, traits, new Set([1]), lanes);

  it('are those that wait for nobody, among the first that have a lane', () => {
    const parts = [
      { type: 'text', text: 'Look.' } as const,
      call('pending'),
      call('error'),
      call('pending', 'browser'),
      call('pending'),
      call('pending', 'read'),
    ];
    expect(starts(parts, 4)).toEqual([4, 5]);
    expect(starts(parts, 3)).toEqual([4]);
    expect(starts(parts, 2)).toEqual([]);
  });

  it('are none of a response that was cut off', () => {
    expect(starts([call('pending')], 8, 'length')).toEqual([]);
  });
});
