import { describe, expect, it } from 'vitest';
import { DOOM_LOOP_STEPS } from '../../src/domain/run/doom-loop.ts';
import type { CallAnswer } from '../../src/domain/transcript/required-action.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { answer, call, createWaitingTools, readActions, send } from './waiting-scenario.ts';

type Answerer = (round: number) => CallAnswer;

/** The model makes the same call in each of these rounds, and the test answers each call. Returns the run's id. */
async function answerEach(service: TestService, tool: string, rounds: number, answerTo: Answerer): Promise<string> {
  service.simulator.script('test', ({ index }) =>
    index < rounds ? { toolCalls: [call(tool, { at: 'home' })] } : { text: 'Done.' },
  );
  await service.startWorker();
  const { runId } = await send(service, await service.createSession(), 'Go');
  const answered = new Set<string>();
  for (let round = 0; round < DOOM_LOOP_STEPS; round++) {
    const action = await eventually(
      async () => (await readActions(service.deps.db, runId)).find(({ id }) => !answered.has(id)) ?? null,
      `the run asks no. ${round}`,
    );
    answered.add(action.id);
    await answer(service, runId, action.id, answerTo(round));
  }
  return runId;
}

describe('a run that asks somebody the same again and again', () => {
  const backend = anyBackend();
  const answers: readonly (readonly [string, string, Answerer])[] = [
    ['deploy', 'approved', () => ({ kind: 'approve' })],
    ['deploy', 'denied', () => ({ kind: 'deny', reason: 'Not on a Friday.' })],
    ['browser', 'answered by the client', () => ({ kind: 'output', output: 'Nothing there.' })],
  ];
  it.each(answers)('ends as a loop where %s is %s', async (tool, _how, answerTo) => {
    await using service = await startTestService({ backend, tools: createWaitingTools().tools });
    const runId = await answerEach(service, tool, DOOM_LOOP_STEPS, answerTo);
    expect(await service.ended(runId)).toMatchObject({
      status: 'incomplete',
      status_reason: 'doom_loop',
      step_count: DOOM_LOOP_STEPS,
    });
    expect(service.simulator.requests).toHaveLength(DOOM_LOOP_STEPS);
  });

  it('goes on as long as the answers change', async () => {
    await using service = await startTestService({ backend, tools: createWaitingTools().tools });
    const answerTo: Answerer = (round) => ({ kind: 'output', output: `${round} of ${DOOM_LOOP_STEPS} are built` });
    const runId = await answerEach(service, 'browser', DOOM_LOOP_STEPS, answerTo);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: DOOM_LOOP_STEPS + 1 });
  });
});
