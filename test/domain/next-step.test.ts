import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import type { Branch } from '../../src/domain/run/branch.ts';
import { EVENT_SCHEMAS } from '../../src/domain/run/events.ts';
import { planNext, type StepOutcome } from '../../src/domain/run/next-step.ts';
import { RUN_TRANSITIONS } from '../../src/domain/run/run.ts';
import { FINISH_REASONS } from '../../src/domain/transcript/message.ts';

const RUN = '018f2b5c-0000-7000-8000-000000000001';
const FAILURE = { code: 'auth', message: 'The key was refused.' } as const;
const FAILED = { kind: 'failed', error: FAILURE } as const;

const outcome = (more: Partial<StepOutcome> = {}): StepOutcome => ({
  runId: RUN,
  stepNo: 4,
  stepsBefore: 3,
  maxSteps: 100,
  finishReason: 'stop',
  toolCalls: 0,
  result: { kind: 'answered' },
  ...more,
});

function statusOf(branch: Branch): string {
  if (branch.kind === 'wait') return 'requires_action';
  return branch.kind === 'end' ? branch.status : `${branch.pendingKind} ${branch.pendingNo}`;
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
    ['an error', { result: FAILED }, ['cancelled', 'failed', 'failed']],
    ['an error after calls', { result: FAILED, toolCalls: 3 }, ['cancelled', 'failed', 'failed']],
  ])('%s', (_name, step, expected) => {
    expect(answers(step)).toEqual(expected);
  });

  it('says that a cancel came after the answer', () => {
    expect(planNext(outcome()).ifCancelled.events).toEqual([
      { type: 'run:completed', data: { runId: formatId('run', RUN), finishReason: 'stop', lateCancel: true } },
    ]);
  });

  it('ends at a limit although messages wait', () => {
    const { ifMessagesWait } = planNext(outcome({ toolCalls: 1, maxSteps: 4 }));
    expect(ifMessagesWait).toMatchObject({ status: 'incomplete', reason: 'max_steps' });
  });

  it('of a paused provider is the same step later, of which no attempt is counted; a cancel still ends it', () => {
    const error = { code: 'rate_limited', message: 'Wait.' } as const;
    const plan = planNext(
      outcome({ result: { kind: 'postponed', postponement: { delayMs: 900, attempt: 2, error } } }),
    );
    const retrying = { runId: formatId('run', RUN), step: 4, attempt: 2, error };
    const step = { pendingKind: 'step', pendingNo: 4 };
    expect(plan.otherwise).toEqual({ kind: 'postpone', ...step, delayMs: 900, retrying, events: [] });
    expect(plan.ifMessagesWait).toEqual(plan.otherwise);
    expect(statusOf(plan.ifCancelled)).toBe('cancelled');
  });

  it('ends at a limit instead of being tried again', () => {
    const retry = { delayMs: 5, attempt: 1 };
    const { otherwise } = planNext(outcome({ result: { ...FAILED, retry }, limit: 'deadline' }));
    expect(otherwise).toMatchObject({ status: 'incomplete', reason: 'deadline' });
    expect(answers({ limit: 'budget', toolCalls: 1 })).toEqual(['cancelled', 'incomplete', 'incomplete']);
    expect(answers({ limit: 'budget' })).toEqual(['completed', 'completed', 'completed']);
  });
});

const anyOutcome: fc.Arbitrary<StepOutcome> = fc.record({
  runId: fc.uuid(),
  stepNo: fc.integer({ min: 1, max: 1000 }),
  stepsBefore: fc.nat(100),
  maxSteps: fc.integer({ min: 1, max: 100 }),
  finishReason: fc.constantFrom(...FINISH_REASONS),
  toolCalls: fc.nat(3),
  result: fc.constant({ kind: 'answered' as const }),
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

  it('messages that wait are never passed over: the run goes on, or ends so that they get a run of their own', () => {
    fc.assert(
      fc.property(anyOutcome, (step) => {
        const { ifMessagesWait } = planNext(step);
        if (ifMessagesWait.kind === 'end') expect(['completed', 'incomplete']).toContain(ifMessagesWait.status);
        else expect(ifMessagesWait).toHaveProperty('pendingNo', step.stepNo + 1);
      }),
    );
  });

  it('no run goes beyond its steps, and calls are answered as long as steps are left', () => {
    fc.assert(
      fc.property(anyOutcome, (step) => {
        const isLast = step.stepsBefore + 1 >= step.maxSteps;
        for (const branch of branchesOf(step)) if (isLast) expect(branch.kind).toBe('end');
        if (!isLast && step.toolCalls > 0) expect(planNext(step).otherwise).toHaveProperty('pendingKind', 'step');
      }),
    );
  });

  function expectValidEnd(name: string, branch: Branch): void {
    for (const event of branch.events) EVENT_SCHEMAS[event.type].parse(event.data);
    if (branch.kind !== 'end') return;
    expect(RUN_TRANSITIONS[name === 'ifCancelled' ? 'cancelling' : 'running']).toContain(branch.status);
    const told = branch.status === 'cancelled' ? [] : [`run:${branch.status}`];
    expect(branch.events.map(({ type }) => type)).toEqual(told);
  }

  it('every end is one that a working run may have, told by one valid event; SQL tells a cancel', () => {
    fc.assert(
      fc.property(anyOutcome, fc.boolean(), (step, fails) => {
        const plan = planNext(fails ? { ...step, result: FAILED } : step);
        for (const [name, branch] of Object.entries(plan)) expectValidEnd(name, branch);
      }),
    );
  });
});
