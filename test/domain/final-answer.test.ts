import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import type { Branch } from '../../src/domain/run/branch.ts';
import { EVENT_SCHEMAS } from '../../src/domain/run/events.ts';
import { exhaustedPlan, planNext, type StepOutcome, type StepResult } from '../../src/domain/run/next-step.ts';
import { LIMIT_REASONS, RUN_TRANSITIONS } from '../../src/domain/run/run.ts';
import { FINISH_REASONS } from '../../src/domain/transcript/message.ts';

const RUN = '018f2b5c-0000-7000-8000-000000000001';
const FAILURE = { code: 'overloaded', message: 'Too much.' } as const;
const RETRY = { delayMs: 5, attempt: 1 };
const TOO_LARGE = { code: 'context_exhausted', message: 'Too large.' } as const;
const FAILED = { kind: 'failed', error: FAILURE } as const;
const PASSING = { ...FAILED, retry: RETRY } as const;
const POSTPONED = { kind: 'postponed', postponement: { ...RETRY, error: FAILURE } } as const;
const REPEAT = { kind: 'repeat', after: 'compaction' } as const;
const CUT_OFF = { kind: 'answered', isUnfinished: true, before: 'compaction' } as const;
const EXHAUSTED = { kind: 'exhausted', error: TOO_LARGE } as const;

const outcome = (more: Partial<StepOutcome> = {}): StepOutcome => ({
  runId: RUN,
  stepNo: 4,
  stepsBefore: 3,
  maxSteps: 100,
  finishReason: 'tool-calls',
  toolCalls: 1,
  givesFinalAnswer: true,
  result: { kind: 'answered' },
  ...more,
});

/** The last step, without tools, for which the run has its own time. */
const finalStep = (reason: string) => ({
  kind: 'final_answer',
  pendingKind: 'step',
  pendingNo: 5,
  limit: reason,
  withinMs: 60_000,
  events: [],
});

describe('a limit that ends the run of an agent with a final answer', () => {
  it.each<[string, Partial<StepOutcome>, string]>([
    ['its steps', { maxSteps: 4 }, 'max_steps'],
    ['its budget', { limit: 'budget' }, 'budget'],
    ['its deadline', { limit: 'deadline', finishReason: 'aborted', toolCalls: 0 }, 'deadline'],
    ['a loop', { limit: 'doom_loop' }, 'doom_loop'],
    ['its deadline, after a failed call', { limit: 'deadline', result: PASSING }, 'deadline'],
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
    const calls = [{ index: 1, part, kind: 'approval' as const }];
    const result = { kind: 'asks', messageId: RUN, calls, waitMs: null } as const;
    const { otherwise } = planNext(outcome({ result, limit: 'deadline' }));
    expect(otherwise).toMatchObject({ ...finalStep('deadline'), events: [{ type: 'llm:tool-result' }] });
    expect(otherwise).toMatchObject({ calls: [{ messageId: RUN, index: 1, state: 'error' }] });
  });

  it('leads to none where the context is what does not fit, or the call failed for good', () => {
    expect(planNext(outcome({ result: EXHAUSTED })).otherwise).toMatchObject({ reason: 'context_exhausted' });
    expect(planNext(outcome({ result: FAILED, maxSteps: 4 })).otherwise).toMatchObject({ status: 'failed' });
  });
});

describe('a final answer', () => {
  const planAfter = (more: Partial<StepOutcome>) => planNext(outcome({ finalAnswerFor: 'max_steps', ...more }));
  const ended = {
    kind: 'end',
    status: 'incomplete',
    reason: 'max_steps',
    events: [{ type: 'run:incomplete', data: { runId: formatId('run', RUN), reason: 'max_steps' } }],
  };

  it.each<[string, Partial<StepOutcome>]>([
    ['came', { finishReason: 'stop', toolCalls: 0 }],
    ['asks for calls', { toolCalls: 2 }],
    ['was cut off', { finishReason: 'length', toolCalls: 0, result: CUT_OFF }],
    ['was stopped when its time was up', { finishReason: 'aborted', toolCalls: 0, limit: 'deadline' }],
    ['failed', { result: FAILED }],
    ['failed in a way that passes, with its time up', { result: PASSING, limit: 'deadline' }],
    ['may not be asked for before its time is up', { result: POSTPONED, limit: 'deadline' }],
    ['does not fit', { result: EXHAUSTED }],
    ['does not fit and its time is up', { result: REPEAT, limit: 'deadline' }],
    ['does the same again', { limit: 'doom_loop' }],
  ])('that %s ends the run for its limit', (_name, step) => {
    expect(planAfter(step)).toMatchObject({ otherwise: ended, ifMessagesWait: ended });
  });

  it.each<[string, Partial<StepOutcome>, object]>([
    ['after a failure that passes', { result: PASSING }, { kind: 'retry', pendingKind: 'step', delayMs: 5 }],
    ['when its provider may be asked', { result: POSTPONED }, { kind: 'postpone', pendingKind: 'step', delayMs: 5 }],
    ['after a compaction', { result: REPEAT }, { kind: 'continue', pendingKind: 'compaction' }],
  ])('is tried again %s, as the same step', (_name, step, expected) => {
    expect(planAfter(step).otherwise).toMatchObject({ ...expected, pendingNo: 4 });
    expect(planAfter(step).ifCancelled).toMatchObject({ status: 'cancelled' });
  });

  it('that no compaction makes fit ends the run for its limit as well', () => {
    const plan = exhaustedPlan(formatId('run', RUN), TOO_LARGE, 'max_steps');
    expect(plan).toMatchObject({ otherwise: ended, ifMessagesWait: ended, ifCancelled: { status: 'cancelled' } });
  });

  function expectEndOrSameStep(step: StepOutcome, name: string, branch: Branch): void {
    for (const event of branch.events) EVENT_SCHEMAS[event.type].parse(event.data);
    if (branch.kind === 'wait') throw new Error('a final answer waits for nobody');
    if (branch.kind === 'end') {
      expect(RUN_TRANSITIONS[name === 'ifCancelled' ? 'cancelling' : 'running']).toContain(branch.status);
      return;
    }
    expect(branch.pendingNo).toBe(step.stepNo);
    expect(branch.kind).not.toBe('final_answer');
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
      result: fc.constantFrom<StepResult>(
        { kind: 'answered' },
        CUT_OFF,
        FAILED,
        PASSING,
        POSTPONED,
        REPEAT,
        { kind: 'repeat', after: 'prune' },
        EXHAUSTED,
      ),
    },
    {
      requiredKeys: [
        'runId',
        'stepNo',
        'stepsBefore',
        'maxSteps',
        'finishReason',
        'toolCalls',
        'finalAnswerFor',
        'result',
      ],
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
