import { sql } from 'kysely';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { BatonError } from '../../src/domain/errors.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { DEATH_CONFIRMED_AFTER_MS, LOSS_WITNESSED_AFTER_MS } from '../../src/domain/tunables.ts';
import type { JobOutcome, JobQueues } from '../../src/queues/job-queue.ts';
import { RECOVERED_AT_ONCE } from '../../src/recovery/take-back.ts';
import { registerPresence } from '../../src/recovery/worker-presence.ts';
import { createWorkerWatch } from '../../src/recovery/worker-watch.ts';
import { claimRun } from '../../src/store/work/claims.ts';
import { findRunsOfWorker, lockRunsOfDeadWorker } from '../../src/store/work/lost-work.ts';
import {
  forgetDeadWorker,
  listWorkers,
  markWorkerSeen,
  noteLostAlone,
  registerWorker,
} from '../../src/store/work/workers.ts';
import { availableBackends, type Backend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { cutLockConnections, readLockKeys } from '../support/worker-locks.ts';
import { holdJobs, holdOneJob } from './held-job.ts';

const LEASE_DURATION_MS = 600_000;

/**
 * A service with a watcher that looks only when the test calls `look`, and a worker that has died with a run in hand.
 */
async function startWatched(backend: Backend = 'postgres', queueOf = (jobs: JobQueues): JobQueues => jobs) {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await startTestService({ backend }));
  const { db, bus, log, lookAfterChildren, stopLeftWork, databaseUrl: connectionString } = service.deps;
  const jobs = queueOf(service.deps.jobs);
  const kinds = ['step'] as const;
  const presence = { db, connectionString, log, kinds, heartbeatIntervalMs: LEASE_DURATION_MS };
  stack.use(await registerPresence({ ...presence, workerId: 'watcher' }));
  const effects = { db, jobs, bus, log, lookAfterChildren, stopLeftWork };
  const deps = { ...effects, workerId: 'watcher', leaseDurationMs: LEASE_DURATION_MS };
  let clockMs = 0;
  const check = createWorkerWatch(deps, () => clockMs);
  const look = (nowMs: number) => {
    clockMs = nowMs;
    return check();
  };
  const runId = await claimFor(service, 'gone');
  await registerAndDie(connectionString, 'gone');
  const owned = stack.move();
  return {
    service,
    db,
    look,
    runId,
    presence,
    run: () =>
      db
        .selectFrom('runs')
        .select(['status', 'lease_owner', 'claim_id', 'resume_count', 'epoch'])
        .where('id', '=', runId)
        .executeTakeFirstOrThrow(),
    workers: async () => [...(await readLockKeys(db)).keys()].sort(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function claimFor(service: TestService, workerId: string): Promise<string> {
  const { db, newId } = service.deps;
  const sessionId = await service.createSession();
  const content = [{ type: 'text', text: 'Go' }] as const;
  const message = { tenantId: 'default', sessionId, messageId: newId(), content, runId: newId() };
  const { job, runId } = await acceptMessage(db, message);
  if (job === null) throw new Error('a run was active');
  const claim = { job, claimId: newId(), workerId, leaseDurationMs: LEASE_DURATION_MS, messageId: newId() };
  expect(await claimRun(db, claim)).toMatchObject({ outcome: 'claimed' });
  return runId;
}

async function registerAndDie(connectionString: string, id: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await registerWorker(client, { id, kinds: ['step'] });
  await client.end();
}

const lockIsFree = (watched: Awaited<ReturnType<typeof startWatched>>, id: string) =>
  eventually(
    async () => (await listWorkers(watched.db)).some((worker) => worker.id === id && worker.lockFree),
    `the lock of ${id} is free`,
  );

describe('the connection of the lock', () => {
  it('is given up by the server within seconds of a silent end, and a setting that it refuses is told', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const client = new pg.Client({ connectionString: service.deps.databaseUrl });
    await using stack = new AsyncDisposableStack();
    stack.defer(() => client.end());
    await client.connect();
    const refused: string[] = [];
    const onRefused = (error: unknown) => refused.push(String(error));
    const worker = { id: 'one', kinds: ['step'] as const };
    await registerWorker(client, worker, { onRefused });
    const wanted = {
      tcp_keepalives_idle: '5',
      tcp_keepalives_interval: '2',
      tcp_keepalives_count: '3',
      tcp_user_timeout: '11000',
      client_connection_check_interval: '1000',
    };
    const { rows } = await client.query<{ name: string; setting: string }>(
      'select name, setting from pg_settings where name = any($1)',
      [Object.keys(wanted)],
    );
    const settings = new Map(rows.map(({ name, setting }) => [name, setting]));
    const otherwise = Object.entries(wanted).filter(([name, value]) => settings.get(name) !== value);
    // A system that cannot set one of them has refused it.
    expect(otherwise.filter(([name]) => !refused.some((error) => error.includes(name)))).toEqual([]);
    await registerWorker(client, worker, { patience: { tcp_of_no_server: '1', tcp_keepalives_idle: '6' }, onRefused });
    expect(refused.at(-1)).toContain('tcp_of_no_server');
    expect((await client.query('show tcp_keepalives_idle')).rows).toEqual([{ tcp_keepalives_idle: '6' }]);
  });
});

describe('the watch over workers', () => {
  it('takes back what a dead worker had in hand at the second look, and forgets it', async () => {
    await using watched = await startWatched();
    await lockIsFree(watched, 'gone');
    await watched.look(0);
    await watched.look(DEATH_CONFIRMED_AFTER_MS - 1);
    expect(await watched.run()).toMatchObject({ status: 'running', lease_owner: 'gone', resume_count: 0 });
    await watched.look(DEATH_CONFIRMED_AFTER_MS);
    expect(await watched.run()).toMatchObject({ status: 'queued', claim_id: null, resume_count: 1, epoch: 2 });
    expect(await watched.workers()).toEqual(['watcher']);
    expect(watched.service.logged).toContainEqual({ event: 'worker_dead', deadWorkerId: 'gone', runs: 1 });
  });

  it.each(availableBackends())(
    'puts what a dead worker had claimed or taken before all that waits, on %s',
    async (backend) => {
      await using watched = await startWatched(backend);
      const { service } = watched;
      const taken = await holdOneJob(service, 'gone');
      const { runId: waiting } = await service.send(await service.createSession(), 'Not begun');
      await lockIsFree(watched, 'gone');
      await watched.look(0);
      await watched.look(DEATH_CONFIRMED_AFTER_MS);
      const delivered: string[] = [];
      const all = Promise.withResolvers<void>();
      const take = async ({ runId }: JobPayload): Promise<JobOutcome> => {
        if (delivered.push(runId) === 3) all.resolve();
        return { outcome: 'done' };
      };
      await using _consumer = await service.deps.jobs.consume('step', take, { concurrency: 1 });
      await all.promise;
      await taken[Symbol.asyncDispose]();
      expect(delivered.slice(0, 2).toSorted()).toEqual([watched.runId, taken.job.runId].toSorted());
      expect(delivered[2]).toBe(waiting);
    },
  );

  it('is left a worker that ended without having handed its run back, to be found dead, and none that had', async () => {
    await using watched = await startWatched();
    const tidy = await registerPresence({ ...watched.presence, workerId: 'tidy' });
    const hasty = await registerPresence({ ...watched.presence, workerId: 'hasty' });
    const runId = await claimFor(watched.service, 'hasty');
    await tidy[Symbol.asyncDispose]();
    await hasty[Symbol.asyncDispose]();
    expect(await watched.workers()).toEqual(['gone', 'hasty', 'watcher']);
    await lockIsFree(watched, 'hasty');
    expect(await findRunsOfWorker(watched.db, 'hasty', 10)).toMatchObject([{ id: runId }]);
  });

  it('sees a worker that ends hold its lock for as long as Postgres takes to forget it', async () => {
    await using watched = await startWatched();
    const ending = await registerPresence({ ...watched.presence, workerId: 'ending' });
    const holder = new pg.Client({ connectionString: watched.presence.connectionString });
    await holder.connect();
    await holder.query('begin');
    await holder.query("select baton_lock_retirement('ending')");
    const ended = ending[Symbol.asyncDispose]();
    await eventually(async () => {
      const { rows } = await sql`
        select 1 from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`.execute(
        watched.db,
      );
      return rows.length > 0;
    }, 'it is being forgotten');
    const sights = await listWorkers(watched.db);
    expect(sights).toContainEqual(expect.objectContaining({ id: 'ending', lockFree: false }));
    await holder.end();
    await ended;
    expect(await watched.workers()).toEqual(['gone', 'watcher']);
  });

  it('leaves a worker alone that gives signs of life without a lock', async () => {
    await using watched = await startWatched();
    await lockIsFree(watched, 'gone');
    for (const nowMs of [0, 1_000, 2_000, 3_000]) {
      await watched.look(nowMs);
      await markWorkerSeen(watched.db, 'gone');
    }
    expect(await watched.run()).toMatchObject({ status: 'running', lease_owner: 'gone' });
  });

  it('looks again under the locks: a sign of life that came after the look counts', async () => {
    await using watched = await startWatched();
    const { db } = watched;
    await lockIsFree(watched, 'gone');
    const gone = (await listWorkers(db)).find((worker) => worker.id === 'gone');
    if (gone === undefined) throw new Error('not registered');
    const [run] = await findRunsOfWorker(db, 'gone', 10);
    if (run === undefined) throw new Error('has no run');
    const lock = () => db.transaction().execute((tx) => lockRunsOfDeadWorker(tx, [run], gone));
    expect(await lock()).toEqual([run]);
    await markWorkerSeen(db, 'gone');
    expect(await lock()).toEqual([]);
  });

  it('forgets nobody who has given a sign of life since the look', async () => {
    await using watched = await startWatched();
    const { db } = watched;
    await registerAndDie(watched.service.deps.databaseUrl, 'idle');
    await lockIsFree(watched, 'idle');
    const sightOfIdle = async () => {
      const idle = (await listWorkers(db)).find((worker) => worker.id === 'idle');
      if (idle === undefined) throw new Error('not registered');
      return idle;
    };
    const before = await sightOfIdle();
    await markWorkerSeen(db, 'idle');
    expect(await forgetDeadWorker(db, before)).toBe(false);
    expect(await forgetDeadWorker(db, await sightOfIdle())).toBe(true);
  });

  it('waits for whoever works on the session, and forgets no worker that still has a run', async () => {
    await using watched = await startWatched();
    const { db } = watched;
    await lockIsFree(watched, 'gone');
    await watched.look(0);
    const session = await db.selectFrom('sessions').select('id').executeTakeFirstOrThrow();
    const locked = Promise.withResolvers<void>();
    const free = Promise.withResolvers<void>();
    const busy = db.transaction().execute(async (tx) => {
      await tx.selectFrom('sessions').select('id').where('id', '=', session.id).forUpdate().execute();
      locked.resolve();
      await free.promise;
    });
    await locked.promise;
    await watched.look(1_000);
    expect(await watched.workers()).toEqual(['gone', 'watcher']);
    free.resolve();
    await busy;
    await watched.look(1_500);
    expect(await watched.run()).toMatchObject({ status: 'queued', resume_count: 1 });
    expect(await watched.workers()).toEqual(['watcher']);
  });

  it('takes nobody for dead for a whole lease after its own connection was lost', async () => {
    await using watched = await startWatched();
    const { db } = watched;
    await lockIsFree(watched, 'gone');
    await watched.look(0);
    const before = (await readLockKeys(db)).get('watcher');
    expect(await cutLockConnections(db, before)).toBe(1);
    await eventually(async () => (await readLockKeys(db)).get('watcher') !== before, 'the watcher has another lock');
    for (const nowMs of [1_000, 5_000, 60_000, LEASE_DURATION_MS]) await watched.look(nowMs);
    expect(await watched.run()).toMatchObject({ status: 'running', lease_owner: 'gone' });
    await watched.look(LEASE_DURATION_MS + 1_000);
    await watched.look(LEASE_DURATION_MS + 2_000);
    expect(await watched.run()).toMatchObject({ status: 'queued', resume_count: 1 });
  });

  it('leaves word of a lock that was lost alone, which whoever comes after it believes at once', async () => {
    await using watched = await startWatched();
    const { db, service } = watched;
    await registerAndDie(service.deps.databaseUrl, 'witness');
    await lockIsFree(watched, 'gone');
    await lockIsFree(watched, 'witness');
    const known = async () => (await listWorkers(db)).filter(({ lostAlone }) => lostAlone).map(({ id }) => id);
    // The others came before the watcher, and all their locks are free when it comes: it cannot know that one was lost
    // alone.
    await sql`update workers set seen_at = seen_at - interval '1 minute' where id <> 'watcher'`.execute(db);
    await watched.look(0);
    await watched.look(1_000);
    expect([await known(), await watched.workers()]).toEqual([[], ['gone', 'watcher', 'witness']]);
    const witnessed = (await listWorkers(db)).find(({ id }) => id === 'gone');
    if (witnessed === undefined) throw new Error('not registered');
    await noteLostAlone(db, [
      { ...witnessed, lockKey: witnessed.lockKey + 1_000 },
      { ...witnessed, seenAt: '1' },
    ]);
    expect(await known()).toEqual([]);
    await noteLostAlone(db, [witnessed]);
    expect(await known()).toEqual(['gone']);
    await watched.look(2_000);
    await watched.look(3_000);
    expect(await watched.run()).toMatchObject({ status: 'queued', resume_count: 1 });
    expect(await watched.workers()).toEqual(['watcher', 'witness']);
  });

  it('leaves word before it is sure of a death, and takes it back with another lock', async () => {
    await using watched = await startWatched();
    const { db, service } = watched;
    await lockIsFree(watched, 'gone');
    await watched.look(0);
    await watched.look(LOSS_WITNESSED_AFTER_MS);
    expect(await listWorkers(db)).toContainEqual(expect.objectContaining({ id: 'gone', lostAlone: true }));
    await registerAndDie(service.deps.databaseUrl, 'gone');
    expect(await listWorkers(db)).toContainEqual(expect.objectContaining({ id: 'gone', lostAlone: false }));
  });

  it('takes the word back with the next sign of life', async () => {
    await using watched = await startWatched();
    const { db } = watched;
    await lockIsFree(watched, 'gone');
    await watched.look(0);
    await watched.look(LOSS_WITNESSED_AFTER_MS);
    await markWorkerSeen(db, 'gone');
    expect(await listWorkers(db)).toContainEqual(expect.objectContaining({ id: 'gone', lostAlone: false }));
  });

  it('marks those as seen that hold their locks when it comes, and nobody else', async () => {
    await using watched = await startWatched();
    const { db, presence } = watched;
    await using _second = await registerPresence({ ...presence, workerId: 'second' });
    await lockIsFree(watched, 'gone');
    await sql`update workers set seen_at = to_timestamp(1)`.execute(db);
    const seen = async () =>
      (await listWorkers(db))
        .filter(({ seenAt }) => Number(seenAt) > 1)
        .map(({ id }) => id)
        .sort();
    await watched.look(0);
    expect(await seen()).toEqual(['second']);
    await sql`update workers set seen_at = to_timestamp(1)`.execute(db);
    await watched.look(100);
    expect(await seen()).toEqual([]);
  });

  it('sees the lock of a living worker as held, and of one that has ended nothing at all', async () => {
    await using watched = await startWatched();
    await lockIsFree(watched, 'gone');
    {
      await using _second = await registerPresence({ ...watched.presence, workerId: 'second' });
      const sights = await listWorkers(watched.db);
      expect(
        sights
          .filter((worker) => !worker.lockFree)
          .map((worker) => worker.id)
          .sort(),
      ).toEqual(['second', 'watcher']);
    }
    expect(await watched.workers()).toEqual(['gone', 'watcher']);
  });

  it.each(availableBackends())(
    'gives a job to others that a dead worker took without a claim, on %s',
    async (backend) => {
      await using watched = await startWatched(backend);
      const { jobs } = watched.service.deps;
      await using gone = await holdOneJob(watched.service, 'gone');
      await using other = await holdOneJob(watched.service, 'watcher');
      await lockIsFree(watched, 'gone');
      await watched.look(0);
      expect(await jobs.takerOf(gone.job)).toBe('gone');
      await watched.look(DEATH_CONFIRMED_AFTER_MS);
      // The queue knows which worker has taken the job, so the job's age and the last sweep do not matter.
      expect(await jobs.stateOf({ ...gone.job, dispatch: gone.job.dispatch + 1 })).toBe('waiting');
      expect(await jobs.stateOf({ ...other.job, dispatch: other.job.dispatch + 1 })).toBe('missing');
      expect(await jobs.stateOf(other.job)).toBe('active');
    },
  );

  it.each(availableBackends())(
    'adds the job of another attempt that a dead worker was to make later, on %s',
    async (backend) => {
      await using watched = await startWatched(backend);
      const { db, service } = watched;
      const { jobs, newId } = service.deps;
      const content = [{ type: 'text', text: 'Go' }] as const;
      const waiting = async () => {
        const ids = { sessionId: await service.createSession(), messageId: newId(), runId: newId() };
        const { job } = await acceptMessage(db, { tenantId: 'default', content, ...ids });
        if (job === null) throw new Error('a run was active');
        await sql`update runs set pending_at = clock_timestamp() + interval '30 seconds' where id = ${job.runId}`.execute(
          db,
        );
        return job;
      };
      const [lost, known] = [await waiting(), await waiting()];
      await jobs.add([known], { delayMs: 30_000 });
      await lockIsFree(watched, 'gone');
      await watched.look(0);
      expect(await jobs.stateOf(lost)).toBe('missing');
      await watched.look(DEATH_CONFIRMED_AFTER_MS);
      expect(await jobs.stateOf(lost)).toBe('delayed');
      const recovered = service.logged.flatMap((event) =>
        event.event === 'run_recovered' && event.reason === 'job_lost' ? [event.runId] : [],
      );
      expect(recovered).toEqual([lost.runId]);
    },
  );

  /** A queue whose `add` waits at a gate. `full` resolves when as many calls wait there as are allowed at once. */
  function startGate({ firstFails }: { firstFails: boolean }) {
    const full = Promise.withResolvers<void>();
    const open = Promise.withResolvers<void>();
    const seen = { added: 0, atOnce: 0, most: 0 };
    const queueOf = (jobs: JobQueues): JobQueues => ({
      ...jobs,
      async add(payloads, options) {
        const nth = ++seen.added;
        seen.most = Math.max(seen.most, ++seen.atOnce);
        try {
          if (seen.atOnce === RECOVERED_AT_ONCE) full.resolve();
          await (nth === 1 && firstFails ? full.promise : open.promise);
          if (nth === 1 && firstFails) throw new BatonError('store_unavailable', 'the job queue cannot be reached');
          await jobs.add(payloads, options);
        } finally {
          seen.atOnce--;
        }
      },
    });
    return { full: full.promise, open: open.resolve, seen, queueOf };
  }

  /** A dead worker without claimed runs that has left more jobs than are given away at once. */
  async function retireWithJobs(gate: ReturnType<typeof startGate>) {
    await using stack = new AsyncDisposableStack();
    const watched = stack.use(await startWatched('postgres', gate.queueOf));
    const { jobs } = stack.use(await holdJobs(watched.service, 'gone', 2 * RECOVERED_AT_ONCE));
    await watched.db.updateTable('runs').set({ lease_owner: null }).where('lease_owner', '=', 'gone').execute();
    // Keeps the runs as young as on a fast machine, because runs that are old enough are looked up as well.
    await sql`update runs set pending_at = clock_timestamp() + interval '1 hour'`.execute(watched.db);
    await lockIsFree(watched, 'gone');
    await watched.look(0);
    const owned = stack.move();
    return { watched, jobs, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  it('gives away the jobs of a dead worker a few at a time', async () => {
    const gate = startGate({ firstFails: false });
    await using scene = await retireWithJobs(gate);
    const looked = scene.watched.look(DEATH_CONFIRMED_AFTER_MS);
    await gate.full;
    // If more jobs than allowed are given away at once, the next one has its new number by now and waits at the gate.
    await scene.watched.workers();
    gate.open();
    await looked;
    expect(gate.seen).toEqual({ added: scene.jobs.length, atOnce: 0, most: RECOVERED_AT_ONCE });
  });

  it('gives no more of them away once the queue is away, and ends with what was under way', async () => {
    const gate = startGate({ firstFails: true });
    await using scene = await retireWithJobs(gate);
    const looked = scene.watched.look(DEATH_CONFIRMED_AFTER_MS);
    await gate.full;
    await scene.watched.workers();
    gate.open();
    await looked;
    expect(gate.seen).toEqual({ added: RECOVERED_AT_ONCE, atOnce: 0, most: RECOVERED_AT_ONCE });
    const { jobs } = scene.watched.service.deps;
    const again = await Promise.all(scene.jobs.map((job) => jobs.stateOf({ ...job, dispatch: job.dispatch + 1 })));
    expect(again.filter((state) => state === 'waiting')).toHaveLength(RECOVERED_AT_ONCE - 1);
  });
});
