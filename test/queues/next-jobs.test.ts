import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { createQueueFixture } from './queue-fixture.ts';

const WORKERS = 8;
const STEPS = 25;
const RUNS = ['a', 'b', 'c', 'd'].map(() => randomUUID());

describe.each(availableBackends())('the job that another one names as its next one (%s)', (backend) => {
  it('is given to the same worker, however many others wait for jobs', async () => {
    await using fixture = await createQueueFixture(backend);
    const takers = new Map<string, number[]>();
    for (let worker = 0; worker < WORKERS; worker++) {
      const handler = async ({ runId, no }: JobPayload) => {
        takers.set(runId, [...(takers.get(runId) ?? []), worker]);
        const report = { step: no, tokens: 0, ms: 0, next: `step ${no + 1}` };
        const next = { runId, kind: 'step', no: no + 1, dispatch: no + 1 } as const;
        return { outcome: 'done', report, ...(no < STEPS && { next }) } as const;
      };
      await fixture.open().consume('step', handler, { concurrency: 2 });
    }
    const queues = fixture.open();
    await queues.add(RUNS.map((runId) => ({ runId, kind: 'step', no: 1, dispatch: 1 })));
    const [steps] = queues.bullQueues();
    await eventually(async () => (await steps?.getCompletedCount()) === STEPS * RUNS.length, 'all have ended');
    for (const runId of RUNS) {
      const [first] = takers.get(runId) ?? [];
      expect(takers.get(runId)).toEqual(Array(STEPS).fill(first));
    }
    expect((await queues.counts()).step).toEqual({ waiting: 0, delayed: 0, active: 0, failed: 0 });
  });

  it('comes before the jobs that wait, and waits in a paused queue', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [steps] = queues.bullQueues();
    const jobOf = (runId: string, no: number) => ({ runId, kind: 'step', no, dispatch: no }) as const;
    const [first = '', second = ''] = RUNS;
    const order: JobPayload[] = [];
    await queues.add([jobOf(first, 1), jobOf(second, 1)]);
    await queues.consume(
      'step',
      async (job) => {
        order.push(job);
        if (job.no === 2) await steps?.pause();
        return { outcome: 'done', ...(job.runId === first && { next: jobOf(first, job.no + 1) }) };
      },
      { concurrency: 1 },
    );
    await eventually(async () => (await queues.stateOf(jobOf(first, 3))) === 'waiting', 'the third one waits');
    expect(order).toEqual([jobOf(first, 1), jobOf(first, 2)]);
  });
});

describe.each(availableBackends())('a job that a worker takes past all others (%s)', (backend) => {
  it('is active and kept as any other, with those that it names as its next ones, beyond the concurrency', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [steps] = queues.bullQueues();
    const [first = '', quiet = '', loud = ''] = RUNS;
    const jobOf = (runId: string, no: number) => ({ runId, kind: 'step', no, dispatch: no }) as const;
    const dam = Promise.withResolvers<void>();
    const order: JobPayload[] = [];
    const states: string[] = [];
    const consumer = await queues.consume(
      'step',
      async (job) => {
        order.push(job);
        states.push(await queues.stateOf(job));
        if (job.runId === first) await dam.promise;
        const report = { step: job.no, tokens: 0, ms: 0, next: `step ${job.no + 1}` };
        return {
          outcome: 'done',
          report,
          ...(job.runId === quiet && job.no < 3 && { next: jobOf(quiet, job.no + 1) }),
        };
      },
      { concurrency: 1 },
    );
    await queues.add([jobOf(first, 1)]);
    await eventually(async () => order.length === 1, 'the only slot is taken');
    await queues.add([jobOf(loud, 1), jobOf(quiet, 1)]);
    expect(await consumer.take(jobOf(quiet, 1))).toBe(true);
    expect(order).toEqual([jobOf(first, 1), jobOf(quiet, 1), jobOf(quiet, 2), jobOf(quiet, 3)]);
    expect(states).toEqual(Array(4).fill('active'));
    expect(await steps?.getCompletedCount()).toBe(3);
    expect(await queues.stateOf(jobOf(loud, 1))).toBe('waiting');
    await steps?.pause();
    expect(await consumer.take(jobOf(loud, 1))).toBe(false);
    await steps?.resume();
    dam.resolve();
    await eventually(async () => (await steps?.getCompletedCount()) === 5, 'the others follow');
  });

  it('ends with its outcome in the queue before the worker has closed', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const other = fixture.open();
    const [held = '', taken = ''] = RUNS;
    const jobOf = (runId: string) => ({ runId, kind: 'step', no: 1, dispatch: 1 }) as const;
    const dam = Promise.withResolvers<void>();
    const inHand: string[] = [];
    const consumer = await queues.consume(
      'step',
      async ({ runId }) => {
        inHand.push(runId);
        await dam.promise;
        return { outcome: 'done', report: { step: 1, tokens: 0, ms: 0, next: 'completed' } };
      },
      { concurrency: 1 },
    );
    await queues.add([jobOf(held)]);
    await eventually(async () => inHand.length === 1, 'the only slot is taken');
    await queues.add([jobOf(taken)]);
    const taking = consumer.take(jobOf(taken));
    await eventually(async () => inHand.length === 2, 'the other job is taken');
    const closing = consumer[Symbol.asyncDispose]();
    dam.resolve();
    await Promise.all([closing, taking]);
    expect(await Promise.all([held, taken].map((runId) => other.stateOf(jobOf(runId))))).toEqual(['ended', 'ended']);
    expect(await consumer.take(jobOf(taken))).toBe(false);
  });
});
