import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { EVENT_SCHEMAS } from '../../src/domain/run/events.ts';
import { type Branch, exhaustedPlan, planNext, type StepOutcome } from '../../src/domain/run/next-step.ts';
import { canMoveRun, LIMIT_REASONS } from '../../src/domain/run/run.ts';
import { FINISH_REASONS } from '../../src/domain/transcript/message.ts';

const RUN = '018f2b5c-0000-7000-8000-000000000001';
const FAILURE = { code: 'overloaded', message: 'Too much.' } as const;
const RETRY = { delayMs: 5, attempt: 1 };
const POSTPONED = { ...RETRY, error: FAILURE };
const EXHAUSTED = { code: 'context_exhausted', message: 'Too large.' } as const;

const outcome = (more: Partial<StepOutcome> = {}): StepOutcome => ({
  runId: RUN,
  stepNo: 4,
  stepsBefore: 3,
  maxSteps: 100,
  finishReason: 'tool-calls',
  toolCalls: 1,
  givesFinalAnswer: true,
  ...more,
});

/** The last step, without tools, for which the run has its own time. */
const finalStep = (reason: string) => ({
  pendingKind: 'step',
  pendingNo: 5,
  finalAnswer: { for: reason, withinMs: 60_000 },
  events: [],
});

describe('a limit that ends the run of an agent with a final answer', () => {
  it.each<[string, Partial<StepOutcome>, string]>([
    ['its steps', { maxSteps: 4 }, 'max_steps'],
    ['its budget', { limit: 'budget' }, 'budget'],
    ['its deadline', { limit: 'deadline', finishReason: 'aborted', toolCalls: 0 }, 'deadline'],
    ['a loop', { limit: 'doom_loop' }, 'doom_loop'],
    ['its deadline, after a failed call', { limit: 'deadline', error: FAILURE, retry: RETRY }, 'deadline'],
  ])('leads to that answer first, whether messages wait or not: %s', (_name, step, reason) => {
    const plan = planNext(outcome(step));
    expect(plan.otherwise).toEqual(finalStep(reason));
    expect(plan.ifMessagesWait).toEqual(finalStep(reason));
    expect(plan.ifCancelled).toMatchObject({ status: 'cancelled' });
  });

  it('is no limit to a step that was the answer anyway', () => {
    const plan = planNext(outcome({ maxSteps: 4, finishReason: 'stop', toolCalls: 0 }));
    expect(plan.otherwise).toMatchObject({ status: 'completed' });
  });

  it('closes the calls that somebody was to be asked about', () => {
    const part = { type: 'tool', toolCallId: 'c', toolName: 'bash', input: {}, state: 'pending' } as const;
    const asks = { messageId: RUN, calls: [{ index: 1, part, kind: 'approval' as const }], waitMs: null };
    const { otherwise } = planNext(outcome({ asks, limit: 'deadline' }));
    expect(otherwise).toMatchObject({ ...finalStep('deadline'), events: [{ type: 'llm:tool-result' }] });
    expect(otherwise).toMatchObject({ calls: [{ messageId: RUN, index: 1, state: 'error' }] });
  });

  it('leads to none where the context is what does not fit, or the call failed for good', () => {
    expect(planNext(outcome({ exhausted: EXHAUSTED })).otherwise).toMatchObject({ reason: 'context_exhausted' });
    expect(planNext(outcome({ error: FAILURE, maxSteps: 4 })).otherwise).toMatchObject({ status: 'failed' });
  });
});

describe('a final answer', () => {
  const planAfter = (more: Partial<StepOutcome>) => planNext(outcome({ finalAnswerFor: 'max_steps', ...more }));
  const ended = {
    status: 'incomplete',
    reason: 'max_steps',
    takesUpWaiting: true,
    events: [{ type: 'run:incomplete', data: { runId: formatId('run', RUN), reason: 'max_steps' } }],
  };

  it.each<[string, Partial<StepOutcome>]>([
    ['came', { finishReason: 'stop', toolCalls: 0 }],
    ['asks for calls', { toolCalls: 2 }],
    ['was cut off', { finishReason: 'length', toolCalls: 0, isUnfinished: true, before: 'compaction' }],
    ['was stopped when its time was up', { finishReason: 'aborted', toolCalls: 0, limit: 'deadline' }],
    ['failed', { error: FAILURE }],
    ['failed in a way that passes, with its time up', { error: FAILURE, retry: RETRY, limit: 'deadline' }],
    ['may not be asked for before its time is up', { postponed: POSTPONED, limit: 'deadline' }],
    ['does not fit', { exhausted: EXHAUSTED }],
    ['does not fit and its time is up', { retryAfter: 'compaction', limit: 'deadline' }],
    ['does the same again', { limit: 'doom_loop' }],
  ])('that %s ends the run for its limit', (_name, step) => {
    expect(planAfter(step)).toMatchObject({ otherwise: ended, ifMessagesWait: ended });
  });

  it.each<[string, Partial<StepOutcome>, object]>([
    ['after a failure that passes', { error: FAILURE, retry: RETRY }, { pendingKind: 'step', retryDelayMs: 5 }],
    ['when its provider may be asked', { postponed: POSTPONED }, { pendingKind: 'step', postponeMs: 5 }],
    ['after a compaction', { retryAfter: 'compaction' }, { pendingKind: 'compaction' }],
  ])('is tried again %s, as the same step', (_name, step, expected) => {
    expect(planAfter(step).otherwise).toMatchObject({ ...expected, pendingNo: 4 });
    expect(planAfter(step).ifCancelled).toMatchObject({ status: 'cancelled' });
  });

  it('that no compaction makes fit ends the run for its limit as well', () => {
    const plan = exhaustedPlan(formatId('run', RUN), EXHAUSTED, 'max_steps');
    expect(plan).toMatchObject({ otherwise: ended, ifMessagesWait: ended, ifCancelled: { status: 'cancelled' } });
  });

  function expectEndOrSameStep(step: StepOutcome, name: string, branch: Branch): void {
    for (const event of branch.events) EVENT_SCHEMAS[event.type].parse(event.data);
    if ('waitMs' in branch) throw new Error('a final answer waits for nobody');
    if ('status' in branch) {
      expect(canMoveRun(name === 'ifCancelled' ? 'cancelling' : 'running', branch.status)).toBe(true);
      return;
    }
    expect(branch.pendingNo).toBe(step.stepNo);
    expect(branch).not.toHaveProperty('finalAnswer');
  }

  const anyOutcome: fc.Arbitrary<StepOutcome> = fc.record(
    {
      runId: fc.uuid(),
      stepNo: fc.integer({ min: 1, max: 1000 }),
      stepsBefore: fc.nat(100),
      maxSteps: fc.integer({ min: 1, max: 100 }),
      finishReason: fc.constantFrom(...FINISH_REASONS),
      toolCalls: fc.nat(3),
      givesFinalAnswer: fc.boolean(),
      finalAnswerFor: fc.constantFrom(...LIMIT_REASONS),
      limit: fc.constantFrom('budget', 'deadline', 'doom_loop'),
      error: fc.constant(FAILURE),
      retry: fc.constant(RETRY),
      postponed: fc.constant(POSTPONED),
      retryAfter: fc.constantFrom('compaction', 'prune'),
      exhausted: fc.constant(EXHAUSTED),
      isUnfinished: fc.boolean(),
    },
    {
      requiredKeys: ['runId', 'stepNo', 'stepsBefore', 'maxSteps', 'finishReason', 'toolCalls', 'finalAnswerFor'],
    },
  );

  it('is never followed by another step, and every end is one that a working run may have', () => {
    fc.assert(
      fc.property(anyOutcome, (step) => {
        const plan = planNext(step);
        for (const [name, branch] of Object.entries(plan)) expectEndOrSameStep(step, name, branch);
        if (step.limit !== undefined) expect(plan.otherwise).toMatchObject({ reason: step.finalAnswerFor });
      }),
    );
  });
});
