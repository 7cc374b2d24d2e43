import { sql } from 'kysely';
import { describe, expect, inject, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { MAX_RESUMES_PER_STEP, SWEEP_LIMIT } from '../../src/domain/tunables.ts';
import { type Reconciler, startReconciler } from '../../src/recovery/reconciler.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { claimRun } from '../../src/store/work/claims.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { holdOneJob } from './held-job.ts';

/** The interval of a reconciler that never sweeps by itself: the test tells it when to sweep. */
const NEVER_MS = 1_000_000_000;
const sweeper = (service: TestService, changes = {}): Reconciler =>
  startReconciler({ ...service.deps, leaseDurationMs: 1, ...changes }, NEVER_MS);

/** A message that was committed by a process that died before it added the job. */
async function acceptWithoutJob({ deps }: TestService, sessionId: string): Promise<JobPayload> {
  const content = [{ type: 'text', text: 'Go' }] as const;
  const message = { tenantId: 'default', sessionId, messageId: deps.newId(), content, runId: deps.newId() };
  const { job } = await acceptMessage(deps.db, message);
  if (job === null) throw new Error('a run was active');
  return job;
}

/** A run whose worker hangs: its lease has expired. */
async function hangWithRun(service: TestService): Promise<string> {
  const { db, newId } = service.deps;
  const job = await acceptWithoutJob(service, await service.createSession());
  const claim = { job, claimId: newId(), workerId: 'hung', leaseDurationMs: 60_000, messageId: newId() };
  expect(await claimRun(db, claim)).toMatchObject({ outcome: 'claimed' });
  await sql`update runs set lease_expires_at = clock_timestamp() - interval '1 hour' where id = ${job.runId}`.execute(
    db,
  );
  return job.runId;
}

const statusOf = async ({ deps }: TestService, runId: string) =>
  (await deps.db.selectFrom('runs').select('status').where('id', '=', runId).executeTakeFirstOrThrow()).status;

const failures = ({ logged }: TestService) => logged.filter(({ event }) => event === 'sweep_failed');

describe.each(availableBackends())('a sweep on %s', (backend) => {
  it('takes nobody for hung before Postgres has been up for a lease, and everybody with an old lease afterwards', async () => {
    await using service = await startTestService({ backend });
    const runId = await hangWithRun(service);
    // This lease is longer than Postgres is up, so no worker could have renewed it.
    await using justStarted = sweeper(service, { leaseDurationMs: 1e12 });
    await justStarted.sweep();
    expect(await statusOf(service, runId)).toBe('running');
    await using later = sweeper(service);
    await later.sweep();
    expect(await statusOf(service, runId)).toBe('queued');
  });

  it('leaves a registered worker a lease when it has just started: it knows of no outage before', async () => {
    await using service = await startTestService({ backend });
    const runId = await hangWithRun(service);
    await service.deps.db
      .insertInto('workers')
      .values({ id: 'hung', kinds: ['step'], lock_key: 1 })
      .execute();
    await using reconciler = sweeper(service);
    await reconciler.sweep();
    expect(await statusOf(service, runId)).toBe('running');
    await eventually(async () => {
      await reconciler.sweep();
      return (await statusOf(service, runId)) === 'queued';
    }, 'the lease is over that the worker was left');
  });

  it('tells readers, the log and the keeper of children of a run that it gives up', async () => {
    await using service = await startTestService({ backend });
    const { db } = service.deps;
    const runId = await hangWithRun(service);
    await sql`update runs set resume_count = ${MAX_RESUMES_PER_STEP} where id = ${runId}`.execute(db);
    const { session_id: sessionId } = await db
      .selectFrom('runs')
      .select('session_id')
      .where('id', '=', runId)
      .executeTakeFirstOrThrow();
    const looks: string[] = [];
    const announced: string[] = [];
    const bus = { ...service.deps.bus, announce: (session: string) => void announced.push(session) };
    await using reconciler = sweeper(service, { bus, lookAfterChildren: () => void looks.push(runId) });
    await reconciler.sweep();
    expect(await statusOf(service, runId)).toBe('failed');
    expect(announced).toEqual([sessionId]);
    expect(looks).toEqual([runId]);
    const ended = { runId, sessionId, status: 'failed', reason: 'resume_limit' };
    expect(service.logged).toContainEqual(expect.objectContaining({ event: 'run_ended', ...ended }));
  });

  it('takes the others back where one run cannot be, and adds lost jobs all the same', async () => {
    await using service = await startTestService({ backend });
    const { db } = service.deps;
    const poisoned = await hangWithRun(service);
    const others = [await hangWithRun(service), await hangWithRun(service)];
    const lost = await acceptWithoutJob(service, await service.createSession());
    await sql`update runs set pending_at = clock_timestamp() - interval '1 minute' where id = ${lost.runId}`.execute(
      db,
    );
    await sql`create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`.execute(
      db,
    );
    await sql`create trigger poison before update on runs for each row
      when (old.id = ${sql.lit(poisoned)}) execute function refuse()`.execute(db);
    await using reconciler = sweeper(service);
    await reconciler.sweep();
    expect(await statusOf(service, poisoned)).toBe('running');
    for (const runId of others) expect(await statusOf(service, runId)).toBe('queued');
    expect(await service.deps.jobs.stateOf(lost)).toBe('waiting');
    expect(failures(service).length).toBe(1);
  });

  it('adds no job of a run that was claimed and went on while it looked for it', async () => {
    await using service = await startTestService({ backend });
    const { db, jobs, newId } = service.deps;
    const job = await acceptWithoutJob(service, await service.createSession());
    await sql`update runs set pending_at = clock_timestamp() - interval '1 minute' where id = ${job.runId}`.execute(db);
    const claim = { job, claimId: newId(), workerId: 'quick', leaseDurationMs: 60_000, messageId: newId() };
    const stateOf: typeof jobs.stateOf = async (asked) => {
      expect(await claimRun(db, claim)).toMatchObject({ outcome: 'claimed' });
      return jobs.stateOf(asked);
    };
    await using reconciler = sweeper(service, { jobs: { ...jobs, stateOf } });
    await reconciler.sweep();
    expect(await jobs.stateOf(job)).toBe('missing');
  });

  it('replaces the ended job of work that is still to be done, as after a failover that lost commits', async () => {
    await using service = await startTestService({ backend });
    const { db, jobs } = service.deps;
    const job = await acceptWithoutJob(service, await service.createSession());
    // The queue knows the next number, too: the lost history had a retry.
    const lost = [job, { ...job, dispatch: job.dispatch + 1 }];
    const report = { step: 1, tokens: 1, ms: 1, next: 'completed' };
    const consumer = await jobs.consume('step', async () => ({ outcome: 'done', report }), { concurrency: 1 });
    await jobs.add(lost);
    for (const each of lost) {
      await eventually(async () => (await jobs.stateOf(each)) === 'ended', 'the job of the lost history has ended');
    }
    await consumer[Symbol.asyncDispose]();
    await sql`update runs set pending_at = clock_timestamp() - interval '3 seconds'`.execute(db);
    await using reconciler = sweeper(service);
    await reconciler.sweep();
    const { rows } = await sql<{ dispatch: number }>`select pending_dispatch as dispatch from runs`.execute(db);
    expect(await jobs.stateOf({ ...job, dispatch: rows[0]?.dispatch ?? 0 })).toBe('waiting');
  });

  it('hastens a job that is delayed beyond the time of its work', async () => {
    await using service = await startTestService({ backend });
    const { db, jobs } = service.deps;
    const job = await acceptWithoutJob(service, await service.createSession());
    await jobs.add([job], { delayMs: 3_600_000 });
    expect(await jobs.stateOf(job)).toBe('delayed');
    await sql`update runs set pending_at = clock_timestamp() - interval '3 seconds'`.execute(db);
    await using reconciler = sweeper(service);
    await reconciler.sweep();
    expect(await jobs.stateOf(job)).toBe('waiting');
  });

  it('gives away what somebody has taken who is no worker any more, and leaves what a worker has taken', async () => {
    await using service = await startTestService({ backend });
    const { db, jobs } = service.deps;
    await db
      .insertInto('workers')
      .values({ id: 'alive', kinds: ['step'], lock_key: 1 })
      .execute();
    await using stack = new AsyncDisposableStack();
    const taken: JobPayload[] = [];
    for (const workerId of ['dead', 'alive']) {
      const held = await holdOneJob(service, workerId);
      stack.use(held);
      taken.push(held.job);
    }
    await sql`update runs set pending_at = clock_timestamp() - interval '3 seconds'`.execute(db);
    await using reconciler = sweeper(service);
    await reconciler.sweep();
    const again = await Promise.all(taken.map((job) => jobs.stateOf({ ...job, dispatch: job.dispatch + 1 })));
    expect(again).toEqual(['waiting', 'missing']);
  });

  it('gives nothing away that a worker took after the last look, and what it has had since then', async () => {
    await using service = await startTestService({ backend });
    const { db, jobs } = service.deps;
    await db
      .insertInto('workers')
      .values({ id: 'slow', kinds: ['step'], lock_key: 1 })
      .execute();
    const job = await acceptWithoutJob(service, await service.createSession());
    await jobs.add([job]);
    const comeDue = () =>
      sql`update runs set pending_at = clock_timestamp() - interval '1 hour',
        next_check_at = next_check_at - interval '1 hour'`.execute(db);
    await using reconciler = sweeper(service);
    const look = async (): Promise<string> => {
      await comeDue();
      await reconciler.sweep();
      return jobs.stateOf({ ...job, dispatch: job.dispatch + 1 });
    };
    expect(await look()).toBe('missing');
    await using _held = await holdOneJob(service, 'slow', job);
    expect(await look()).toBe('missing');
    expect(await look()).toBe('waiting');
  });

  it('says once that Postgres is away, and tries nothing else', async () => {
    await using service = await startTestService({ backend });
    const db = openDatabase({ connectionString: 'postgres://postgres@127.0.0.1:1/nobody' });
    await using reconciler = sweeper(service, { db });
    await reconciler.sweep();
    await reconciler.sweep();
    expect(failures(service).length).toBe(1);
    await db.destroy();
  });

  it('fills an emptied queue in one go, however much it had', async () => {
    await using service = await startTestService({ backend });
    const { db, jobs } = service.deps;
    const count = 2 * SWEEP_LIMIT + 1;
    const accept = async () => acceptWithoutJob(service, await service.createSession());
    const lost: JobPayload[] = [];
    while (lost.length < count) {
      lost.push(...(await Promise.all(Array.from({ length: Math.min(20, count - lost.length) }, accept))));
    }
    await sql`update runs set pending_at = clock_timestamp() - interval '1 minute'`.execute(db);
    await using reconciler = sweeper(service);
    await reconciler.sweep();
    const states = await Promise.all(lost.map((job) => jobs.stateOf(job)));
    expect(states.filter((state) => state === 'waiting').length).toBe(count);
  });
});

describe('a sweep while the queue is away', () => {
  const redisUrl = inject('redisUrl');

  it.runIf(redisUrl !== null)(
    'waits for it once, not for every run, and goes on with what needs no queue',
    async () => {
      await using proxy = await startTcpProxy(redisUrl ?? '');
      const environment = { REDIS_URL: proxy.via(redisUrl ?? '') };
      await using service = await startTestService({ backend: 'redis', environment });
      const hung = await hangWithRun(service);
      for (let left = 3; left > 0; left -= 1) await acceptWithoutJob(service, await service.createSession());
      await sql`update runs set pending_at = clock_timestamp() - interval '1 minute' where claim_id is null`.execute(
        service.deps.db,
      );
      await proxy.refuse();
      await using reconciler = sweeper(service);
      await reconciler.sweep();
      expect(await statusOf(service, hung)).toBe('queued');
      expect(failures(service)).toMatchObject([{ error: { code: 'store_unavailable' } }]);
      await proxy.restore();
    },
  );
});
