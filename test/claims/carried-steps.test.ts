import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type CarriedSteps, createCarriedSteps } from '../../src/claims/carried-steps.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { CARRIED_IN_A_ROW, PAUSE_ANSWER_HOLDS_MS } from '../../src/domain/tunables.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { JobOutcome } from '../../src/queues/job-queue.ts';

const DONE: JobOutcome = { outcome: 'done' };
const FAILED: JobOutcome = { outcome: 'run-failed', error: { code: 'internal', message: 'No.' } };

const runId = newId();
const job = (no: number): JobPayload => ({ runId, kind: 'step', no, dispatch: no });

function open(options: Partial<Parameters<typeof createCarriedSteps>[0]> = {}): CarriedSteps {
  return createCarriedSteps({
    log: () => undefined,
    concurrency: 2,
    isPaused: async () => false,
    addAgain: async () => undefined,
    ...options,
  });
}

/** Works on a job until the returned function is called. */
function give(steps: CarriedSteps, given: JobPayload): () => Promise<JobOutcome> {
  const { promise, resolve } = Promise.withResolvers<JobOutcome>();
  const outcome = steps.accept(given, () => promise);
  return () => {
    resolve(DONE);
    return outcome;
  };
}

describe('the job of a carried step', () => {
  test('waits for the step and has its outcome', async () => {
    const steps = open();
    const end = give(steps, job(1));
    const { promise, resolve } = Promise.withResolvers<JobOutcome>();
    steps.carryOn(job(1), job(2), () => promise);
    await end();
    const work = vi.fn();
    const outcome = steps.accept(job(2), work);
    resolve(FAILED);
    expect(await outcome).toBe(FAILED);
    expect(work).not.toHaveBeenCalled();
  });

  test('has its outcome also when it comes after the end of the step, once', async () => {
    const steps = open();
    give(steps, job(1));
    steps.carryOn(job(1), job(2), async () => FAILED);
    await steps.settled();
    expect(await steps.accept(job(2), async () => DONE)).toBe(FAILED);
    expect(await steps.accept(job(2), async () => DONE)).toBe(DONE);
  });

  test('fails as the step does, and without a job the failure is logged', async () => {
    const log = vi.fn();
    const steps = open({ log });
    give(steps, job(1));
    steps.carryOn(job(1), job(2), async () => {
      throw new Error('no disk');
    });
    await expect(steps.accept(job(2), async () => DONE)).rejects.toThrow('no disk');
    await turn();
    expect(log).toHaveBeenCalledWith('error', expect.objectContaining({ event: 'job_failed', runId }));
  });
});

test('the job of a step that failed its run is added again if it has not come', async () => {
  const addAgain = vi.fn(async () => undefined);
  const steps = open({ addAgain });
  give(steps, job(1));
  steps.carryOn(job(1), job(2), async () => FAILED);
  steps.carryOn(job(1), job(3), async () => DONE);
  const given = steps.accept(job(4), async () => FAILED);
  await given;
  await steps.settled();
  expect(addAgain.mock.calls).toEqual([[job(2)]]);
});

test('the wait for steps at work includes one that begins meanwhile', async () => {
  const steps = open();
  give(steps, job(1));
  const [second, third] = [Promise.withResolvers<JobOutcome>(), Promise.withResolvers<JobOutcome>()];
  steps.carryOn(job(1), job(2), async () => {
    const outcome = await second.promise;
    steps.carryOn(job(2), job(3), () => third.promise);
    return outcome;
  });
  let isSettled = false;
  const settled = steps.settled().then(() => {
    isSettled = true;
  });
  second.resolve(DONE);
  await turn();
  expect(isSettled).toBe(false);
  third.resolve(DONE);
  await settled;
});

describe('a worker goes on with the next step', () => {
  test('only of a job that the queue gave it', async () => {
    const steps = open();
    expect(steps.mayCarryOn(job(1))).toBe(false);
    const end = give(steps, job(1));
    await turn();
    expect(steps.mayCarryOn(job(1))).toBe(true);
    steps.carryOn(job(1), job(2), () => new Promise(() => undefined));
    expect(steps.mayCarryOn(job(2))).toBe(false);
    give(steps, job(2));
    expect(steps.mayCarryOn(job(2))).toBe(true);
    await end();
    expect(steps.mayCarryOn(job(1))).toBe(false);
  });

  test('not while it stops', () => {
    const steps = open();
    give(steps, job(1));
    steps.stop();
    expect(steps.mayCarryOn(job(1))).toBe(false);
  });

  test.each([
    ['is paused', async () => true],
    ['is away', () => Promise.reject(new Error('away'))],
    ['does not answer', () => new Promise<boolean>(() => undefined)],
  ])('not while the queue %s, however long its step takes', async (_, later) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let isPaused = async (): Promise<boolean> => false;
    const steps = open({ isPaused: () => isPaused() });
    give(steps, job(1));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(steps.mayCarryOn(job(1))).toBe(true);
    isPaused = later;
    await vi.advanceTimersByTimeAsync(PAUSE_ANSWER_HOLDS_MS);
    expect(steps.mayCarryOn(job(1))).toBe(false);
  });

  test('asks nothing while it has no job', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const isPaused = vi.fn(async () => false);
    const steps = open({ isPaused });
    await give(steps, job(1))();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(isPaused).toHaveBeenCalledTimes(1);
  });

  test('a few times in a row while it takes as many jobs as it may, and any number of times else', async () => {
    const stepsInARow = async (concurrency: number): Promise<number> => {
      const steps = open({ concurrency });
      let no = 1;
      let atWork = Promise.withResolvers<JobOutcome>();
      let outcome = steps.accept(job(no), () => atWork.promise);
      await turn();
      for (; steps.mayCarryOn(job(no)) && no < 50; no += 1) {
        const next = Promise.withResolvers<JobOutcome>();
        steps.carryOn(job(no), job(no + 1), () => next.promise);
        atWork.resolve(DONE);
        await outcome;
        atWork = next;
        outcome = steps.accept(job(no + 1), async () => DONE);
      }
      return no;
    };
    expect(await stepsInARow(1)).toBe(CARRIED_IN_A_ROW + 1);
    expect(await stepsInARow(2)).toBe(50);
  });
});
