import { describe, expect, it } from 'vitest';
import type { Branch } from '../../../src/domain/run/branch.ts';
import { EVENT_SCHEMAS } from '../../../src/domain/run/events.ts';
import { planNext, type StepOutcome } from '../../../src/domain/run/next-step.ts';
import type { OutputState } from '../../../src/domain/run/output-format.ts';
import { verdictOfCalls } from '../../../src/domain/run/output-verdict.ts';
import { runOutputOf } from '../../../src/domain/run/run-output.ts';
import type { ToolPart } from '../../../src/domain/transcript/message.ts';

const MESSAGE = '018f2b5c-0000-7000-8000-000000000002';
const plan = (more: Partial<StepOutcome>) =>
  planNext({
    runId: '018f2b5c-0000-7000-8000-000000000001',
    stepNo: 2,
    stepsBefore: 1,
    maxSteps: 9,
    finishReason: 'stop',
    toolCalls: 0,
    result: { kind: 'answered' },
    output: runOutputOf(MESSAGE, [{ type: 'text', text: '{}' }]),
    ...more,
  });
const misfits = (repairs: number) => ({ kind: 'misfits', problem: 'No total.', state: { repairs } }) as const;
const stateOf = (branch: Branch): OutputState | undefined =>
  branch.kind === 'continue' ? branch.outputState : undefined;

describe('after an answer to a run with a schema', () => {
  it('that fits, the run ends with it, although the answer has calls', () => {
    const fits = { kind: 'fits', value: { total: 1 } } as const;
    const { otherwise, ifCancelled, ifMessagesWait } = plan({ verdict: fits, toolCalls: 2, maxSteps: 2 });
    expect(otherwise).toMatchObject({ status: 'completed', result: { value: { total: 1 } } });
    expect(otherwise.events).toMatchObject([{ type: 'run:completed', data: { output: { value: { total: 1 } } } }]);
    expect(ifCancelled).toMatchObject({ status: 'completed', result: { value: { total: 1 } } });
    expect(ifMessagesWait).toMatchObject({ status: 'completed' });
    expect(stateOf(plan({ verdict: fits }).ifMessagesWait)).toEqual({ repairs: 0 });
  });

  it.each([0, 1])('that does not, and was asked for again %i times, the run asks again', (repairs) => {
    const { otherwise, ifCancelled, ifMessagesWait } = plan({ verdict: misfits(repairs) });
    expect(stateOf(otherwise)).toEqual({ repairs: repairs + 1, problem: 'No total.' });
    expect(ifMessagesWait).toEqual(otherwise);
    expect(ifCancelled).toMatchObject({ status: 'cancelled' });
    const [event] = otherwise.events;
    expect(event).toMatchObject({
      type: 'output:invalid',
      data: { step: 2, problem: 'No total.', repairs: repairs + 1 },
    });
    expect(EVENT_SCHEMAS['output:invalid'].safeParse(event?.data).success).toBe(true);
  });

  it('that does not fit for the third time, the run ends with its text and why', () => {
    const { otherwise } = plan({ verdict: misfits(2) });
    const error = { code: 'output_invalid', message: 'No total.' };
    expect(otherwise).toMatchObject({ status: 'incomplete', reason: 'output_invalid', error });
    expect(otherwise).not.toHaveProperty('result');
    expect(otherwise.events).toMatchObject([
      { type: 'output:invalid', data: { repairs: 2 } },
      { type: 'run:incomplete', data: { reason: 'output_invalid', output: { text: '{}' } } },
    ]);
  });

  it('at a limit, the limit ends the run', () => {
    expect(plan({ verdict: misfits(0), maxSteps: 2 }).otherwise).toMatchObject({ reason: 'max_steps' });
    const last = { kind: 'last', state: { repairs: 0 } } as const;
    expect(plan({ verdict: last, limit: 'budget' }).otherwise).toMatchObject({ reason: 'budget' });
  });

  it('that is to be followed by the result, one step more is taken, after the messages that wait', () => {
    const { otherwise, ifMessagesWait, ifCancelled } = plan({ verdict: { kind: 'last', state: { repairs: 1 } } });
    expect(stateOf(otherwise)).toEqual({ repairs: 1, isLast: true });
    expect(stateOf(ifMessagesWait)).toBeUndefined();
    expect(ifCancelled).toMatchObject({ status: 'cancelled' });
  });
});

describe('the calls of final_result', () => {
  const call = (state: ToolPart['state'], input: number, toolName = 'final_result'): ToolPart => ({
    type: 'tool',
    toolCallId: 'c',
    toolName,
    input: { total: input },
    state,
    ...(state === 'error' && { output: { type: 'error-text', value: 'no' } }),
  });
  it.each([
    [[], null],
    [[call('completed', 1, 'other')], null],
    [[call('completed', 1), call('error', 2)], { kind: 'fits', value: { total: 1 } }],
    [[call('completed', 1), call('completed', 2)], { kind: 'fits', value: { total: 2 } }],
    [[call('error', 1)], { kind: 'misfits', problem: 'no', state: { repairs: 1 } }],
    [[call('unknown', 1)], { kind: 'misfits', problem: expect.any(String), state: { repairs: 1 } }],
  ])('%#', (parts, verdict) => {
    expect(verdictOfCalls(parts, { repairs: 1 })).toEqual(verdict);
  });
});
