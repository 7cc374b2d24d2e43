import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WorkerSight } from '../../src/domain/liveness/worker-liveness.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { createPostgresBus } from '../../src/events/postgres-bus.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createJobQueues } from '../../src/queues/bullmq-queues.ts';
import { type LockLost, takeBackEach } from '../../src/recovery/take-back.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { claimRun, renewLeases } from '../../src/store/work/claims.ts';
import {
  asOnlySweeper,
  findExpiredLeases,
  findRunsOfWorker,
  findUnclaimed,
  type LeasedRun,
  lockExpiredLeases,
  lockRunsOfDeadWorker,
  redispatch,
} from '../../src/store/work/lost-work.ts';
import {
  forgetDeadWorker,
  listWorkers,
  markWorkerSeen,
  registerWorker,
  removeWorker,
} from '../../src/store/work/workers.ts';
import { answerStep, type Claimed } from '../http/play-worker.ts';
import { behindLock, claimOf, openRace, type Race, untilWaiting } from '../store/race.ts';
import { appendOne } from '../store/write-one.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';

const LEASE_DURATION_MS = 60_000;

let database: TestDatabase;
let stack: AsyncDisposableStack;
let recoverEach: (lost: readonly LeasedRun[], lock: LockLost) => Promise<number>;
const recover = async (lost: LeasedRun, lock: LockLost) => (await recoverEach([lost], lock)) === 1;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  database = stack.use(await createTestDatabase());
  const { db, connectionString } = database;
  const log = () => undefined;
  const jobs = stack.use(createJobQueues({ backend: 'postgres', connectionString, log }));
  const bus = stack.use(await createPostgresBus({ connectionString }));
  recoverEach = (lost, lock) =>
    takeBackEach(
      { db, jobs, bus, log, lookAfterChildren: () => undefined, stopLeftWork: () => undefined },
      lost,
      lock,
      { reason: 'lease_expired' },
    );
});
afterAll(() => stack.disposeAsync());

/** A run at work, and the function by which a reconciler that has found it lost takes it back. */
type Lost = Readonly<{ claimed: Claimed; found: LeasedRun; takeBack: () => Promise<boolean> }>;

async function begin(race: Race, workerId: string, leaseDurationMs: number): Promise<Claimed> {
  const { job } = await race.send('Go');
  if (job === null) throw new Error('there is no job');
  const [messageId, claimId] = [newId(), newId()];
  const claim = await claimRun(race.db, { job, claimId, workerId, leaseDurationMs, messageId });
  if (claim.outcome !== 'claimed') throw new Error(claim.outcome);
  return { fence: { runId: job.runId, epoch: claim.epoch, claimId }, run: claim.run, job, messageId };
}

/** A run whose lease is over, after the reconciler has found it. */
async function loseLease(race: Race): Promise<Lost> {
  const claimed = await begin(race, newId(), 1);
  const found = await eventually(
    async () => (await findExpiredLeases(race.db, 1_000)).find(({ id }) => id === claimed.fence.runId) ?? null,
    'the lease has run out',
  );
  return { claimed, found, takeBack: () => recover(found, lockExpiredLeases) };
}

/** A run whose worker's lock is free, after the watch has taken the worker for dead. */
async function loseWorker(race: Race): Promise<Lost & Readonly<{ workerId: string }>> {
  const workerId = newId();
  const claimed = await begin(race, workerId, LEASE_DURATION_MS);
  const client = await hold(workerId);
  await client.end();
  const sight = await sightOf(race.db, workerId);
  const [found] = await findRunsOfWorker(race.db, workerId, 10);
  if (found === undefined) throw new Error('the worker has no run');
  return {
    claimed,
    found,
    workerId,
    takeBack: () => recover(found, (tx, runs) => lockRunsOfDeadWorker(tx, runs, sight)),
  };
}

async function hold(workerId: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.connectionString });
  await client.connect();
  await registerWorker(client, { id: workerId, kinds: ['step'] });
  return client;
}

/** The watch's sight of a worker whose lock is free. */
const sightOf = (db: Db, workerId: string): Promise<WorkerSight> =>
  eventually(
    async () => (await listWorkers(db)).find(({ id, lockFree }) => id === workerId && lockFree) ?? null,
    'the lock is free',
  );

const renew = (race: Race, { fence }: Claimed) => renewLeases(race.db, [fence], LEASE_DURATION_MS);

const append = (race: Race, { fence, messageId }: Claimed) =>
  appendOne(race.db, fence, messageId, [{ charOffset: 0, partIndex: 0, type: 'text', text: 'late' }]);

const resumesOf = async (db: Db, runId: string) =>
  (await db.selectFrom('runs').select('resume_count').where('id', '=', runId).executeTakeFirstOrThrow()).resume_count;

describe('several lost runs', () => {
  const statusOf = async (db: Db, { id }: LeasedRun) => (await findRun(db, 'default', id))?.status;

  it('are taken back without the one whose session is locked, and without the one that has ended', async () => {
    const { db } = database;
    const races = [await openRace(db), await openRace(db), await openRace(db)] as const;
    const [free, locked, ended] = [await loseLease(races[0]), await loseLease(races[1]), await loseLease(races[2])];
    await answerStep(db, ended.claimed, 'Done.');
    const taken = await db.transaction().execute(async (tx) => {
      await sql`select 1 from sessions where id = ${races[1].sessionId} for no key update`.execute(tx);
      return recoverEach([free.found, locked.found, ended.found], lockExpiredLeases);
    });
    expect(taken).toBe(1);
    expect(await Promise.all([free, locked, ended].map(({ found }) => statusOf(db, found)))).toEqual([
      'queued',
      'running',
      'completed',
    ]);
  });

  it('are taken back although Postgres refuses one of them', async () => {
    const { db } = database;
    const lost = [await loseLease(await openRace(db)), await loseLease(await openRace(db))];
    const [refused, other] = lost.map(({ found }) => found);
    if (refused === undefined || other === undefined) throw new Error('no run is lost');
    await sql`alter table runs add constraint refuses check (id <> ${sql.lit(refused.id)} or resume_count = 0)`.execute(
      db,
    );
    try {
      expect(await recoverEach([refused, other], lockExpiredLeases)).toBe(1);
    } finally {
      await sql`alter table runs drop constraint refuses`.execute(db);
    }
    expect([await statusOf(db, refused), await statusOf(db, other)]).toEqual(['running', 'queued']);
  });
});

describe('a reconciler and a worker that is merely slow', () => {
  it('heartbeat between find and take-back: a run that somebody works on would be begun again', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await loseLease(race);
    expect(await renew(race, claimed)).toHaveLength(1);
    expect(await takeBack()).toBe(false);
    expect((await answerStep(race.db, claimed, 'Done.')).branch).toBe('otherwise');
  });

  it('heartbeat vs. take-back: by what it read before its wait, the reconciler would take a renewed run', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await loseLease(race);
    const [renewed, taken] = await race.inOrderAtRun(claimed.fence.runId, () => renew(race, claimed), takeBack);
    expect(renewed).toHaveLength(1);
    expect(taken).toBe(false);
    expect((await answerStep(race.db, claimed, 'Done.')).branch).toBe('otherwise');
  });

  it('take-back vs. heartbeat: the worker would go on with a run that is not its own', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await loseLease(race);
    const [taken, renewed] = await race.inOrderAtRun(claimed.fence.runId, takeBack, () => renew(race, claimed));
    expect(taken).toBe(true);
    expect(renewed).toEqual([]);
  });

  it('sign of life vs. take-back: a worker that only lost its lock would lose its runs as well', async () => {
    const race = await openRace(database.db);
    const { claimed, workerId, takeBack } = await loseWorker(race);
    const taken = await behindLock(race.db, { table: 'runs', id: claimed.fence.runId }, async () => {
      const taking = takeBack();
      await untilWaiting(race.db, 1);
      await markWorkerSeen(race.db, workerId);
      return { taking };
    });
    expect(await taken.taking).toBe(false);
    expect((await answerStep(race.db, claimed, 'Done.')).branch).toBe('otherwise');
  });

  it('new lock vs. take-back: a worker that is back would lose its runs', async () => {
    const race = await openRace(database.db);
    const { claimed, workerId, takeBack } = await loseWorker(race);
    const taken = await behindLock(race.db, { table: 'runs', id: claimed.fence.runId }, async () => {
      const taking = takeBack();
      await untilWaiting(race.db, 1);
      return { taking, client: await hold(workerId) };
    });
    const outcome = await taken.taking;
    await taken.client.end();
    expect(outcome).toBe(false);
  });
});

describe('a claim that waits for its locks', () => {
  const input = (job: JobPayload, workerId: string) =>
    ({ job, claimId: newId(), workerId, leaseDurationMs: LEASE_DURATION_MS, messageId: newId() }) as const;

  /** A worker that has died with nothing in hand, and a job that it had begun to claim. */
  async function loseClaim(race: Race) {
    const { job } = await race.send('Go');
    if (job === null) throw new Error('there is no job');
    const workerId = newId();
    const client = await hold(workerId);
    await client.end();
    return { job, workerId, sight: await sightOf(race.db, workerId) };
  }

  it.each([
    ['its retirement', (db: Db, sight: WorkerSight): Promise<unknown> => forgetDeadWorker(db, sight)],
    ['its own end', (db: Db, { id }: WorkerSight): Promise<unknown> => removeWorker(db, id)],
  ])('%s during a claim: the run would be of nobody until its lease is over', async (_, remove) => {
    const race = await openRace(database.db);
    const { job, workerId, sight } = await loseClaim(race);
    const late = () => claimRun(race.db, input(job, workerId));
    const [claim] = await race.during(job.runId, late, () => remove(race.db, sight));
    expect((await listWorkers(race.db)).map(({ id }) => id)).not.toContain(workerId);
    expect(claim).toEqual({ outcome: 'dead' });
    expect(await claimOf(race.db, job)).toMatchObject({ outcome: 'claimed', epoch: 1 });
  });

  it('claim vs. retirement: a worker would be forgotten that has a run in hand', async () => {
    const race = await openRace(database.db);
    const { db } = race;
    const { job, workerId, sight } = await loseClaim(race);
    const { retiring } = await db.transaction().execute(async (tx) => {
      expect(await claimRun(tx, input(job, workerId))).toMatchObject({ outcome: 'claimed' });
      const waiting = forgetDeadWorker(db, sight);
      await untilWaiting(db, 1);
      return { retiring: waiting };
    });
    expect(await retiring).toBe(false);
    expect(await findRunsOfWorker(db, workerId, 10)).toMatchObject([{ id: job.runId }]);
  });

  it('of a living worker that was taken for dead is refused until that is registered again', async () => {
    const race = await openRace(database.db);
    const { job, workerId, sight } = await loseClaim(race);
    expect(await forgetDeadWorker(race.db, sight)).toBe(true);
    expect(await claimRun(race.db, input(job, workerId))).toEqual({ outcome: 'dead' });
    const client = await hold(workerId);
    const claim = await claimRun(race.db, input(job, workerId));
    await client.end();
    expect(claim).toMatchObject({ outcome: 'claimed' });
  });

  it('retirement vs. registration: a worker that is back would be refused for ever', async () => {
    const race = await openRace(database.db);
    const { job, workerId, sight } = await loseClaim(race);
    const { registering } = await race.db.transaction().execute(async (tx) => {
      expect(await forgetDeadWorker(tx, sight)).toBe(true);
      const waiting = hold(workerId);
      await untilWaiting(race.db, 1);
      return { registering: waiting };
    });
    const client = await registering;
    const claim = await claimRun(race.db, input(job, workerId));
    await client.end();
    expect(claim).toMatchObject({ outcome: 'claimed' });
  });
});

describe.each([
  ['whose lease is over', loseLease],
  ['whose worker is dead', loseWorker],
] as const)('a run %s', (_, lose) => {
  it('finish between find and take-back: a run that has ended would begin again', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await lose(race);
    await answerStep(race.db, claimed, 'Done.');
    expect(await takeBack()).toBe(false);
    expect(await findRun(race.db, 'default', claimed.fence.runId)).toMatchObject({ status: 'completed' });
  });

  it('finish vs. take-back: the reconciler would wait for a worker that is at its end, and others for it', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await lose(race);
    const { runId } = claimed.fence;
    const [finished, taken] = await race.during(runId, () => answerStep(race.db, claimed, 'Done.'), takeBack);
    expect(finished.branch).toBe('otherwise');
    expect(taken).toBe(false);
    expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: 'completed' });
  });

  it('take-back vs. finish: the step would be done twice', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await lose(race);
    const [taken, refused] = await race.inOrderAtRun(claimed.fence.runId, takeBack, () =>
      answerStep(race.db, claimed, 'Late.').catch((error: Error) => error.message),
    );
    expect([taken, refused]).toEqual([true, 'the step was fenced']);
    expect(await findRun(race.db, 'default', claimed.fence.runId)).toMatchObject({ status: 'queued' });
  });

  it('streamed text vs. take-back: what is durable would not be there for the next worker', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await lose(race);
    const outcomes = await race.inOrderAtRun(claimed.fence.runId, () => append(race, claimed), takeBack);
    expect(outcomes).toEqual([true, true]);
  });

  it('take-back vs. streamed text: it would be mixed with that of the next worker', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await lose(race);
    const outcomes = await race.inOrderAtRun(claimed.fence.runId, takeBack, () => append(race, claimed));
    expect(outcomes).toEqual([true, false]);
  });

  it('two reconcilers at once: it would cost two resumes, and two jobs be added', async () => {
    const race = await openRace(database.db);
    const { claimed, takeBack } = await lose(race);
    const { runId } = claimed.fence;
    const outcomes = await race.during(runId, takeBack, takeBack);
    expect(outcomes).toEqual([true, false]);
    expect(await takeBack()).toBe(false);
    expect(await resumesOf(race.db, runId)).toBe(1);
    const run = { runId, kind: 'step', no: 1 } as const;
    expect(await claimOf(race.db, { ...run, dispatch: claimed.job.dispatch })).toEqual({ outcome: 'stale' });
    expect(await claimOf(race.db, { ...run, dispatch: claimed.job.dispatch + 1 })).toMatchObject({
      outcome: 'claimed',
      epoch: claimed.fence.epoch + 2,
    });
  });
});

describe('two reconcilers and a job that is stuck', () => {
  async function findStuck(race: Race) {
    const { runId } = await race.send('Go');
    const found = (await findUnclaimed(race.db, 0, 1_000)).find((run) => run.runId === runId);
    if (found === undefined) throw new Error('nothing is pending');
    return found;
  }

  it('redispatch vs. redispatch: the job of one of them would be stale, and both believe in it', async () => {
    const race = await openRace(database.db);
    const stuck = await findStuck(race);
    const [one, two] = await race.inOrderAtRun(
      stuck.runId,
      () => redispatch(race.db, stuck),
      () => redispatch(race.db, stuck),
    );
    expect(one).toMatchObject({ dispatch: stuck.dispatch + 1 });
    expect(two).toBe(null);
  });

  it('claim vs. redispatch: the run at work would have a job that is good for a second worker', async () => {
    const race = await openRace(database.db);
    const stuck = await findStuck(race);
    const { runId, kind, no, dispatch } = stuck;
    const [claim, again] = await race.inOrderAtRun(
      runId,
      () => claimOf(race.db, { runId, kind, no, dispatch }),
      () => redispatch(race.db, stuck),
    );
    expect(claim.outcome).toBe('claimed');
    expect(again).toBe(null);
  });

  it('redispatch vs. claim: the job that was stuck would be taken beside the new one', async () => {
    const race = await openRace(database.db);
    const stuck = await findStuck(race);
    const { runId, kind, no, dispatch } = stuck;
    const [again, claim] = await race.inOrderAtRun(
      runId,
      () => redispatch(race.db, stuck),
      () => claimOf(race.db, { runId, kind, no, dispatch }),
    );
    expect(claim).toEqual({ outcome: 'stale' });
    expect(await claimOf(race.db, again ?? { runId, kind, no, dispatch })).toMatchObject({ outcome: 'claimed' });
  });

  it('one of them sweeps at a time: the other one has nothing to wait for', async () => {
    const sweeping = await asOnlySweeper(database.db, async () => asOnlySweeper(database.db, async () => 'both'));
    expect(sweeping).toBe(null);
    expect(await asOnlySweeper(database.db, async () => 'after it')).toBe('after it');
  });
});
