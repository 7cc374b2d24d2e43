import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { EVENT_SCHEMAS } from '../../src/domain/run/events.ts';
import { type Branch, planNext, type StepOutcome } from '../../src/domain/run/next-step.ts';
import { canMoveRun } from '../../src/domain/run/run.ts';
import { FINISH_REASONS } from '../../src/domain/transcript/message.ts';

const RUN = '018f2b5c-0000-7000-8000-000000000001';
const FAILURE = { code: 'auth', message: 'The key was refused.' } as const;

const outcome = (more: Partial<StepOutcome> = {}): StepOutcome => ({
  runId: RUN,
  stepNo: 4,
  stepsBefore: 3,
  maxSteps: 100,
  finishReason: 'stop',
  toolCalls: 0,
  ...more,
});

function statusOf(branch: Branch): string {
  if ('waitMs' in branch) return 'requires_action';
  return 'status' in branch ? branch.status : `${branch.pendingKind} ${branch.pendingNo}`;
}
const answers = (step: Partial<StepOutcome>) => {
  const plan = planNext(outcome(step));
  return [statusOf(plan.ifCancelled), statusOf(plan.ifMessagesWait), statusOf(plan.otherwise)];
};

describe('what follows a step', () => {
  it.each<[string, Partial<StepOutcome>, [ifCancelled: string, ifMessagesWait: string, otherwise: string]]>([
    ['an answer', {}, ['completed', 'step 5', 'completed']],
    ['an answer that was cut off by its length', { finishReason: 'length' }, ['completed', 'step 5', 'completed']],
    ['calls', { finishReason: 'tool-calls', toolCalls: 2 }, ['cancelled', 'step 5', 'step 5']],
    [
      'calls although the provider says stop',
      { finishReason: 'stop', toolCalls: 1 },
      ['cancelled', 'step 5', 'step 5'],
    ],
    ['a response that was stopped half-way', { finishReason: 'aborted' }, ['cancelled', 'step 5', 'step 5']],
    ['calls in the last step allowed', { toolCalls: 1, maxSteps: 4 }, ['cancelled', 'incomplete', 'incomplete']],
    ['an answer in the last step allowed', { maxSteps: 4 }, ['completed', 'completed', 'completed']],
    ['calls in the last step but one', { toolCalls: 1, maxSteps: 5 }, ['cancelled', 'step 5', 'step 5']],
    ['an error', { error: FAILURE }, ['cancelled', 'failed', 'failed']],
    ['an error after calls', { error: FAILURE, toolCalls: 3 }, ['cancelled', 'failed', 'failed']],
  ])('%s', (_name, step, expected) => {
    expect(answers(step)).toEqual(expected);
  });

  it('says that a cancel came after the answer', () => {
    expect(planNext(outcome()).ifCancelled.events).toEqual([
      { type: 'run:completed', data: { runId: formatId('run', RUN), finishReason: 'stop', lateCancel: true } },
    ]);
  });

  it('names the tools that a cancel could not stop', () => {
    expect(planNext(outcome({ toolCalls: 1 })).ifCancelled.events).toEqual([
      { type: 'run:cancelled', data: { runId: formatId('run', RUN), stillRan: [] } },
    ]);
  });

  it('gives waiting messages a run of their own when a limit ended this one', () => {
    const { ifMessagesWait } = planNext(outcome({ toolCalls: 1, maxSteps: 4 }));
    expect(ifMessagesWait).toMatchObject({ status: 'incomplete', reason: 'max_steps', takesUpWaiting: true });
  });

  it('of a paused provider is the same step later, of which no attempt is counted; a cancel still ends it', () => {
    const error = { code: 'rate_limited', message: 'Wait.' } as const;
    const postponed = { delayMs: 900, attempt: 2, error };
    const plan = planNext(outcome({ postponed }));
    expect(plan.otherwise).toMatchObject({ pendingKind: 'step', pendingNo: 4, postponeMs: 900 });
    expect(plan.otherwise).not.toHaveProperty('retryDelayMs');
    expect(plan.otherwise.events).toMatchObject([{ type: 'step:retrying', data: { step: 4, attempt: 2, error } }]);
    expect(plan.ifMessagesWait).toEqual(plan.otherwise);
    expect(statusOf(plan.ifCancelled)).toBe('cancelled');
  });

  it('ends at a limit instead of being tried again', () => {
    const retry = { delayMs: 5, attempt: 1 };
    const { otherwise } = planNext(outcome({ error: FAILURE, retry, limit: 'deadline' }));
    expect(otherwise).toMatchObject({ status: 'incomplete', reason: 'deadline', takesUpWaiting: true });
    expect(answers({ limit: 'budget', toolCalls: 1 })).toEqual(['cancelled', 'incomplete', 'incomplete']);
    expect(answers({ limit: 'budget' })).toEqual(['completed', 'completed', 'completed']);
  });

  it.each([{ error: FAILURE }, { finishReason: 'aborted' as const }])(
    'leaves waiting messages parked after a failure and after a cancel: %j',
    (step) => {
      const plan = planNext(outcome(step));
      expect(plan.ifCancelled).not.toHaveProperty('takesUpWaiting');
      if (step.error !== undefined) expect(plan.ifMessagesWait).not.toHaveProperty('takesUpWaiting');
    },
  );
});

const anyOutcome: fc.Arbitrary<StepOutcome> = fc.record({
  runId: fc.uuid(),
  stepNo: fc.integer({ min: 1, max: 1000 }),
  stepsBefore: fc.nat(100),
  maxSteps: fc.integer({ min: 1, max: 100 }),
  finishReason: fc.constantFrom(...FINISH_REASONS),
  toolCalls: fc.nat(3),
  nextRunId: fc.uuid(),
});

describe('after any step', () => {
  const branchesOf = (step: StepOutcome): Branch[] => Object.values(planNext(step));

  it('a cancelled run ends, whatever else waits', () => {
    fc.assert(
      fc.property(anyOutcome, (step) => {
        const { ifCancelled } = planNext(step);
        expect(['cancelled', 'completed']).toContain(statusOf(ifCancelled));
        if (step.toolCalls > 0) expect(statusOf(ifCancelled)).toBe('cancelled');
      }),
    );
  });

  it('messages that wait are never passed over: the run goes on, or names the run that takes them', () => {
    fc.assert(
      fc.property(anyOutcome, (step) => {
        const { ifMessagesWait } = planNext(step);
        if ('status' in ifMessagesWait) expect(ifMessagesWait.takesUpWaiting).toBe(true);
        else expect(ifMessagesWait).toHaveProperty('pendingNo', step.stepNo + 1);
      }),
    );
  });

  it('no run goes beyond its steps, and calls are answered as long as steps are left', () => {
    fc.assert(
      fc.property(anyOutcome, (step) => {
        const isLast = step.stepsBefore + 1 >= step.maxSteps;
        for (const branch of branchesOf(step)) if (isLast) expect(branch).toHaveProperty('status');
        if (!isLast && step.toolCalls > 0) expect(planNext(step).otherwise).toHaveProperty('pendingKind', 'step');
      }),
    );
  });

  it('every end is one that a working run may have, told by one valid event', () => {
    fc.assert(
      fc.property(anyOutcome, fc.boolean(), (step, fails) => {
        const plan = planNext(fails ? { ...step, error: FAILURE } : step);
        for (const [name, branch] of Object.entries(plan)) {
          for (const event of branch.events) EVENT_SCHEMAS[event.type].parse(event.data);
          if (!('status' in branch)) continue;
          expect(canMoveRun(name === 'ifCancelled' ? 'cancelling' : 'running', branch.status)).toBe(true);
          expect(branch.events.map(({ type }) => type)).toEqual([`run:${branch.status}`]);
        }
      }),
    );
  });
});
