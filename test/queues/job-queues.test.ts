import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { describe, expect, it, vi } from 'vitest';
import { type JobPayload, jobIdOf, toQueuedJob } from '../../src/domain/run/job.ts';
import { PENDING_KINDS, type PendingKind } from '../../src/domain/run/run.ts';
import type { DeliveryJob } from '../../src/domain/webhooks/delivery-job.ts';
import { createJobQueues } from '../../src/queues/bullmq-queues.ts';
import type { JobHandler, JobOutcome, JobQueues } from '../../src/queues/job-queue.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startDeadlyGreeting } from './deadly-greeting.ts';
import { createQueueFixture, type QueueFixture } from './queue-fixture.ts';

const DONE: JobOutcome = { outcome: 'done' };
const HOUR_MS = 3_600_000;

const newJob = (kind: PendingKind = 'step'): JobPayload => ({ runId: randomUUID(), kind, no: 1, dispatch: 1 });

type Recorder = Readonly<{
  handler: JobHandler;
  delivered: readonly JobPayload[];
  /** Resolves when this many jobs were delivered. */
  reached: (count: number) => Promise<unknown>;
}>;

/** A handler that records each job and then runs `act`. */
function recorder(act: (job: JobPayload) => Promise<JobOutcome> = async () => DONE): Recorder {
  const delivered: JobPayload[] = [];
  return {
    delivered,
    handler: (job) => {
      delivered.push(job);
      return act(job);
    },
    reached: (count) => eventually(async () => delivered.length >= count, `${count} jobs are delivered`),
  };
}

const gone = (queues: JobQueues, job: JobPayload) =>
  eventually(async () => (await queues.stateOf(job)) === 'missing', 'the job is gone');

const loggedOf = (fixture: QueueFixture, event: string) => fixture.logged.filter((entry) => entry.event === event);

describe.each(availableBackends())('job queues on %s', (backend) => {
  it('deliver a job once, with its payload, to the consumers of its kind', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    expect(queues.backend).toBe(backend);
    const jobs = PENDING_KINDS.map((kind) => newJob(kind));
    await queues.add(jobs);
    const byKind = new Map(PENDING_KINDS.map((kind) => [kind, recorder()]));
    for (const [kind, { handler }] of byKind) await queues.consume(kind, handler, { concurrency: 2 });
    for (const job of jobs) await gone(queues, job);
    expect([...byKind.values()].map(({ delivered }) => delivered)).toEqual(jobs.map((job) => [job]));
  });

  it('deliver what another process added, and to one of two consumers only', async () => {
    await using fixture = await createQueueFixture(backend);
    const producer = fixture.open();
    const consumers = [recorder(), recorder()];
    for (const { handler } of consumers) await fixture.open().consume('step', handler, { concurrency: 1 });
    const jobs = Array.from({ length: 10 }, () => newJob());
    await producer.add(jobs);
    for (const job of jobs) await gone(producer, job);
    const ids = consumers.flatMap(({ delivered }) => delivered).map(jobIdOf);
    expect(ids.toSorted()).toEqual(jobs.map(jobIdOf).toSorted());
  });

  it('deliver first what is to be first, whatever waits', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [before, after, first] = [newJob(), newJob(), newJob()];
    await queues.add([before, after]);
    await queues.add([first], { isFirst: true });
    const { handler, delivered, reached } = recorder();
    await queues.consume('step', handler, { concurrency: 1 });
    await reached(3);
    expect(delivered).toEqual([first, before, after]);
  });

  it('count what waits in a paused queue', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    await Promise.all(queues.bullQueues().map((queue) => queue.pause()));
    await queues.add([newJob(), newJob(), newJob('prune')]);
    const { step, prune, compaction } = await queues.counts();
    expect([step.waiting, prune.waiting, compaction.waiting]).toEqual([2, 1, 0]);
  });

  it('take what is being added while they are closed', async () => {
    await using fixture = await createQueueFixture(backend);
    const closing = fixture.open();
    const jobs = Array.from({ length: 40 }, () => newJob());
    const added = Promise.all(jobs.map((job) => closing.add([job])));
    await Promise.all([added, closing[Symbol.asyncDispose]()]);
    const queues = fixture.open();
    const states = await Promise.all(jobs.map((job) => queues.stateOf(job)));
    expect(new Set(states)).toEqual(new Set(['waiting']));
  });

  it('leave a job as it is that is added again while it waits or is worked on', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [twice, after] = [newJob(), newJob()];
    const { promise: gate, resolve: open } = Promise.withResolvers<JobOutcome>();
    const { handler, delivered, reached } = recorder(() => gate);
    await queues.add([twice]);
    await queues.add([twice]);
    await queues.consume('step', handler, { concurrency: 1 });
    await reached(1);
    await queues.add([twice, twice]);
    await queues.add([after]);
    open(DONE);
    await gone(queues, after);
    expect(delivered).toEqual([twice, after]);
  });

  it('tell where a job is: waiting, active, and missing before and after', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const job = newJob();
    const { promise: gate, resolve: open } = Promise.withResolvers<JobOutcome>();
    const { handler, reached } = recorder(() => gate);
    expect(await queues.stateOf(job)).toBe('missing');
    await queues.add([job]);
    expect(await queues.stateOf(job)).toBe('waiting');
    await queues.consume('step', handler, { concurrency: 1 });
    await reached(1);
    expect(await queues.stateOf(job)).toBe('active');
    open(DONE);
    await gone(queues, job);
  });

  it('hold a delayed job back behind one that is due', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [soon, far, now] = [newJob(), newJob(), newJob()];
    const { handler, delivered, reached } = recorder();
    await queues.consume('step', handler, { concurrency: 1 });
    await queues.add([far], { delayMs: HOUR_MS });
    // Longer than the next job takes to be added and taken, however busy the machine is.
    await queues.add([soon], { delayMs: 2_000 });
    await queues.add([now]);
    await reached(2);
    expect(delivered).toEqual([now, soon]);
    expect(await queues.stateOf(far)).toBe('delayed');
    await queues.hasten(far);
    await reached(3);
  });

  it('bring a job back under the same id that its consumer wants later', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [early, never] = [newJob(), newJob()];
    const { handler, delivered, reached } = recorder(async (job) => {
      if (job.runId === never.runId) return { outcome: 'later', delayMs: HOUR_MS };
      return delivered.length === 1 ? { outcome: 'later', delayMs: 50 } : DONE;
    });
    await queues.consume('step', handler, { concurrency: 1 });
    await queues.add([early]);
    await reached(2);
    await gone(queues, early);
    expect(delivered).toEqual([early, early]);
    await queues.add([never]);
    await reached(3);
    await eventually(async () => (await queues.stateOf(never)) === 'delayed', 'the job is back in the queue');
    expect(loggedOf(fixture, 'job_failed')).toEqual([]);
  });

  it('lose nothing when a handler throws: it is logged, the others go on, and its id is free again', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [broken, fine] = [newJob(), newJob()];
    const { handler, delivered, reached } = recorder(async (job) => {
      if (job.runId === broken.runId) throw new Error('no luck');
      return DONE;
    });
    await queues.consume('step', handler, { concurrency: 1 });
    await queues.add([broken, fine]);
    await reached(2);
    await gone(queues, broken);
    expect(delivered).toEqual([broken, fine]);
    expect(loggedOf(fixture, 'job_failed')).toEqual([
      { event: 'job_failed', runId: broken.runId, error: { name: 'Error', message: 'no luck' } },
    ]);
    await queues.add([broken]);
    await reached(3);
    expect(delivered[2]).toEqual(broken);
  });

  it('keep the jobs of failed runs until they are removed by their age, and nothing else with them', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const failing = PENDING_KINDS.map((kind) => newJob(kind));
    const waiting = { ...newJob(), no: 2 };
    await queues.add(failing);
    await queues.add([waiting], { delayMs: HOUR_MS });
    for (const kind of PENDING_KINDS) {
      const { handler } = recorder(async () => ({ outcome: 'run-failed', error: { code: 'auth', message: 'No.' } }));
      await queues.consume(kind, handler, { concurrency: 1 });
    }
    await eventually(async () => (await queues.countFailed(0)) === failing.length, 'all have failed');
    expect(await queues.countFailed(HOUR_MS)).toBe(0);
    expect(await queues.removeFailed(HOUR_MS)).toBe(0);
    expect((await queues.counts()).step).toMatchObject({ failed: 1, delayed: 1 });
    expect(await queues.removeFailed(0)).toBe(failing.length);
    expect(await queues.countFailed(0)).toBe(0);
    expect((await queues.counts()).step).toMatchObject({ failed: 0, delayed: 1 });
  });

  it.each([
    ['is not a job', 'stray', { runId: 'not-a-uuid' }],
    ['has unknown fields', 'padded', { ...toQueuedJob(newJob()), secret: 'x' }],
    ['belongs to another queue', 'misplaced', toQueuedJob(newJob('prune'))],
  ])('log a payload that %s, and show it to no handler', async (_what, jobId, data) => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const valid = newJob();
    const { handler, delivered } = recorder();
    await fixture.addRaw(jobId, data);
    await queues.add([valid]);
    await queues.consume('step', handler, { concurrency: 1 });
    await gone(queues, valid);
    expect(delivered).toEqual([valid]);
    expect(loggedOf(fixture, 'job_invalid')).toEqual([{ event: 'job_invalid', queue: 'step', jobId }]);
  });

  it('take no more jobs once paused, finish the one in hand, and leave the rest to others', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [inHand, left] = [newJob(), newJob()];
    const { promise: gate, resolve: open } = Promise.withResolvers<JobOutcome>();
    const paused = recorder(() => gate);
    const consumer = await queues.consume('step', paused.handler, { concurrency: 1 });
    await queues.add([inHand, left]);
    await paused.reached(1);
    await consumer.pause();
    expect(consumer.activeCount()).toBe(1);
    open(DONE);
    await gone(queues, inHand);
    expect(await queues.stateOf(left)).toBe('waiting');
    const other = recorder();
    await fixture.open().consume('step', other.handler, { concurrency: 1 });
    await gone(queues, left);
    expect([paused.delivered, other.delivered]).toEqual([[inHand], [left]]);
    expect(consumer.activeCount()).toBe(0);
  });

  it('wait for the jobs in hand when a consumer is disposed', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const order: string[] = [];
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const { handler, reached } = recorder(async () => {
      await gate;
      await queues.probe();
      order.push('job done');
      return DONE;
    });
    const consumer = await queues.consume('step', handler, { concurrency: 1 });
    const job = newJob();
    await queues.add([job]);
    await reached(1);
    const disposed = consumer[Symbol.asyncDispose]().then(() => order.push('disposed'));
    await queues.probe();
    expect(order).toEqual([]);
    open();
    await disposed;
    expect(order).toEqual(['job done', 'disposed']);
    expect(await queues.stateOf(job)).toBe('missing');
  });

  it('work on as many jobs at once as they are told, and not on more', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const full = Promise.withResolvers<void>();
    const seen: number[] = [];
    const { handler } = recorder(async () => {
      seen.push(consumer.activeCount());
      if (consumer.activeCount() === 3) full.resolve();
      await full.promise;
      return DONE;
    });
    const consumer = await queues.consume('step', handler, { concurrency: 3 });
    const jobs = Array.from({ length: 12 }, () => newJob());
    await queues.add(jobs);
    for (const job of jobs) await gone(queues, job);
    expect(Math.max(...seen)).toBe(3);
    expect(seen.length).toBe(jobs.length);
  });

  it('go on after every connection was cut', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const { promise: gate, resolve: open } = Promise.withResolvers<JobOutcome>();
    const { handler, delivered, reached } = recorder(() => gate);
    await queues.consume('step', handler, { concurrency: 1 });
    const before = Array.from({ length: 5 }, () => newJob());
    await queues.add(before);
    await reached(1);
    await fixture.cutConnections();
    open(DONE);
    const after = newJob();
    await eventually(async () => {
      await queues.add([after]).catch(() => null);
      return (await queues.stateOf(after).catch(() => 'missing')) !== 'missing' || delivered.some(isSame(after));
    }, 'a job is accepted again');
    await eventually(
      async () => [...before, after].every((job) => delivered.some(isSame(job))),
      'all jobs of before and after are delivered',
    );
  });

  it('keep the last thousand jobs that have done something, with what that was', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const report = { step: 3, tokens: 12, ms: 4, next: 'step 4' };
    const jobs = Array.from({ length: 1_151 }, () => newJob());
    await queues.add(jobs);
    const { handler, reached } = recorder(async () => ({ outcome: 'done', report }));
    await queues.consume('step', handler, { concurrency: 20 });
    await reached(jobs.length);
    const [steps] = queues.bullQueues();
    await eventually(async () => (await steps?.getActiveCount()) === 0, 'all are done');
    const kept = (await steps?.getCompleted()) ?? [];
    expect(kept.length).toBeGreaterThanOrEqual(1_000);
    expect(kept.length).toBeLessThan(1_051);
    expect(kept[0]?.returnvalue).toEqual(report);
    expect(await queues.stateOf(jobs.at(-1) ?? newJob())).toBe('ended');
  });

  it('remove jobs that have done something once they are older than an hour', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const { handler, reached } = recorder(async () => ({
      outcome: 'done',
      report: { step: 1, tokens: 12, ms: 4, next: 'completed' },
    }));
    const [steps] = queues.bullQueues();
    const kept = async () => ((await steps?.getCompleted()) ?? []).map((job) => job.id);
    const [old, young] = [newJob(), newJob()];
    const realNow = Date.now;
    // BullMQ notes the time at which a job ended by the clock of this process.
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => realNow() - HOUR_MS - 1_000);
    try {
      await using _ = await queues.consume('step', handler, { concurrency: 1 });
      await queues.add([old]);
      await reached(1);
      await eventually(async () => (await kept()).includes(jobIdOf(old)), 'it is kept');
    } finally {
      clock.mockRestore();
    }
    await queues.consume('step', handler, { concurrency: 1 });
    await queues.add([young]);
    await reached(2);
    await eventually(async () => (await kept()).includes(jobIdOf(young)), 'the younger one is kept');
    expect(await kept()).toEqual([jobIdOf(young)]);
  });

  it('keep nothing of jobs that found nothing to do', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const jobs = PENDING_KINDS.flatMap((kind) => [newJob(kind), newJob(kind)]);
    const broken = newJob();
    for (const kind of PENDING_KINDS) {
      const { handler } = recorder(async (job) => {
        if (job.runId === broken.runId) throw new Error('no luck');
        return DONE;
      });
      await queues.consume(kind, handler, { concurrency: 1 });
    }
    await queues.add([...jobs, broken]);
    for (const job of [...jobs, broken]) await gone(queues, job);
    const remains = await fixture.remains();
    const metadata = /^[\w-]+:(steps|compactions|prunes|deliveries):(meta|events|stalled-check|marker|id)$/;
    expect(remains.filter((one) => !metadata.test(one))).toEqual([]);
  });

  it('deliver to webhooks by a queue of their own: a job once, though it is added twice, and kept with what it did', async () => {
    await using fixture = await createQueueFixture(backend);
    const [queues, other] = [fixture.open(), fixture.open()];
    const jobs = [1, 2].map((dispatch) => ({ deliveryId: randomUUID(), dispatch }));
    await queues.deliveries.add(jobs);
    await other.deliveries.add(jobs);
    const delivered: DeliveryJob[] = [];
    const report = { attempt: 1, status: 204, ms: 12, next: 'delivered' };
    await other.deliveries.consume(
      async (job) => {
        delivered.push(job);
        return job.dispatch === 1 ? report : undefined;
      },
      { concurrency: 1 },
    );
    await eventually(async () => {
      const { delivery } = await queues.counts();
      return delivered.length === 2 && delivery.active === 0;
    }, 'both were delivered');
    expect(delivered).toEqual(jobs);
    const kept = (await queues.bullQueues().at(-1)?.getCompleted()) ?? [];
    expect(kept.map(({ returnvalue }) => returnvalue)).toEqual([report]);
  });

  it('use ids that BullMQ takes as they are: without a colon, and not a number', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    for (const kind of PENDING_KINDS) {
      const job = newJob(kind);
      expect(jobIdOf(job)).toMatch(/^run_[0-9a-f]{32}-(step|compaction|prune)-1-1$/);
      await queues.add([job], { delayMs: HOUR_MS });
      expect(await queues.stateOf(job)).toBe('delayed');
      expect(await queues.stateOf({ ...job, dispatch: 2 })).toBe('missing');
    }
  });
});

describe('job queues whose connections to Postgres end as soon as they are ready', () => {
  it('harm nobody, and their workers listen again on the next that stays', async () => {
    await using database = await createTestDatabase();
    await using greeting = await startDeadlyGreeting(database.connectionString);
    const { connectionString } = greeting;
    await using queues = createJobQueues({ backend: 'postgres', connectionString, log: () => undefined });
    const { handler, delivered } = recorder();
    await queues.consume('step', handler, { concurrency: 1 });
    const listening = async () => {
      const { rows } = await sql<{ pid: number }>`
        select pid from pg_stat_activity
        where datname = current_database() and query ilike ${'%listen bullmq_jobs%'}`.execute(database.db);
      return rows[0]?.pid ?? null;
    };
    const before = await eventually(listening, 'the worker listens');
    greeting.endNext(5);
    await eventually(async () => greeting.left() === 0, 'connections were ended at once');
    const isAnother = (pid: number | null) => pid !== null && pid !== before;
    await eventually(async () => isAnother(await listening()), 'the worker listens again');
    const job = newJob();
    await queues.add([job]);
    await gone(queues, job);
    expect(delivered).toEqual([job]);
  });
});

describe('job queues that cannot be reached', () => {
  /** Port 1 of the loopback: nothing listens there. */
  const unreachable = {
    redis: { backend: 'redis', url: 'redis://127.0.0.1:1', prefix: 'baton-test-nowhere' },
    postgres: { backend: 'postgres', connectionString: 'postgres://postgres@127.0.0.1:1/nowhere' },
  } as const;

  it.each(['redis', 'postgres'] as const)('reject every call instead of waiting, on %s', async (backend) => {
    const logged: string[] = [];
    await using queues = createJobQueues({
      ...unreachable[backend],
      log: (_level, { event }) => void logged.push(event),
    });
    const calls = [queues.add([newJob()]), queues.stateOf(newJob()), queues.probe()];
    const settled = await Promise.allSettled(calls);
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  });
});

const isSame = (job: JobPayload) => (other: JobPayload) => other.runId === job.runId;
