import { type RawBuilder, sql } from 'kysely';
import type pg from 'pg';
import type { WorkerSight } from '../domain/liveness/worker-liveness.ts';
import type { PendingKind } from '../domain/run/run.ts';
import { type Db, inTransaction } from './database.ts';

/**
 * Keeps the workers' lock keys apart from whatever else takes advisory locks in this database. Arbitrary, only ours.
 */
const WORKER_LOCK_CLASS = 1_652_651_119;

/**
 * How soon the server gives up a connection whose other end is gone without a word: 11 s. Not every server knows each
 * of these, and where the system cannot do one the server refuses it: then the system's own patience decides.
 */
const SERVER_PATIENCE: Readonly<Record<string, string>> = {
  tcp_keepalives_idle: '5',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '11000',
  client_connection_check_interval: '1000',
};

/** `kinds`: of the jobs that it takes. */
export type RegisteredWorker = Readonly<{ id: string; host: string; pid: number; kinds: readonly PendingKind[] }>;

export type RegistrationOptions = Readonly<{
  /** Settings of the connection, by name. */
  patience?: Readonly<Record<string, string>>;
  /** Told of each setting that the server does not take. */
  onRefused?: (error: unknown) => void;
}>;

/**
 * Takes a lock that lives as long as this connection does, and registers the worker under its key. The lock comes
 * first: a key that others can read is held. One that was taken for dead may claim again.
 * @throws what Postgres throws
 */
export async function registerWorker(
  client: pg.ClientBase,
  worker: RegisteredWorker,
  { patience = SERVER_PATIENCE, onRefused = () => undefined }: RegistrationOptions = {},
): Promise<void> {
  const { rows } = await client.query<{ lockKey: number }>(
    `select key::integer as "lockKey", pg_advisory_lock($1, key::integer)
     from (select nextval('worker_lock_keys') as key offset 0) as next`,
    [WORKER_LOCK_CLASS],
  );
  await client.query(
    `insert into workers (id, host, pid, kinds, lock_key) values ($1, $2, $3, $4, $5)
     on conflict (id) do update set lock_key = excluded.lock_key, locked_at = excluded.locked_at,
       lost_alone = false, seen_at = clock_timestamp()`,
    [worker.id, worker.host, worker.pid, worker.kinds, rows[0]?.lockKey],
  );
  // Afterwards: a burial that the statement before has waited for is seen by this one alone.
  await client.query('delete from dead_workers where id = $1', [worker.id]);
  for (const [name, value] of Object.entries(patience)) {
    await client.query('select set_config($1, $2, false)', [name, value]).catch(onRefused);
  }
}

const lockFree = sql<boolean>`
  pg_try_advisory_xact_lock_shared(${sql.lit(WORKER_LOCK_CLASS)}, lock_key::integer)`;

/** A sign of life. Of whom it comes is not dead, whoever has left word that its lock was lost. */
export async function markWorkerSeen(db: Db, id: string): Promise<void> {
  await sql`update workers set seen_at = clock_timestamp(), lost_alone = false where id = ${id}`.execute(db);
}

/**
 * Whoever holds a lock has been seen to live. Said once by whoever has just taken a lock: as long as that is held, the
 * others' were not lost in an outage before this.
 */
export async function markHoldersSeen(db: Db, ownId: string): Promise<void> {
  await sql`
    with holders as (select id from workers where id <> ${ownId} and not ${lockFree} order by id for no key update)
    update workers set seen_at = clock_timestamp() from holders where workers.id = holders.id`.execute(db);
}

const hasNothingInHand = (id: string): RawBuilder<boolean> => sql<boolean>`not exists (
  select 1 from runs where claim_id is not null and status in ('running', 'cancelling') and lease_owner = ${id})`;

/** The worker has ended. One that has left a run behind stays: the others find it dead, and the run with it. */
export async function removeWorker(db: Db, id: string): Promise<void> {
  await retire(db, id, sql<boolean>`true`);
}

/** To the microsecond, and the same whatever the connection's time zone is. */
const seenAt = sql<string>`extract(epoch from seen_at)::text`;
const lockedAt = sql<string>`extract(epoch from locked_at)::text`;

/** All workers, each with whether anybody holds its lock. Probes share a lock, so that they do not see each other. */
export async function listWorkers(db: Db): Promise<WorkerSight[]> {
  const { rows } = await sql<WorkerSight>`
    select id, lock_key as "lockKey", ${lockFree} as "lockFree", ${lockedAt} as "lockedAt", ${seenAt} as "seenAt",
      lost_alone as "lostAlone"
    from workers`.execute(db);
  return rows;
}

export type WorkersByKind = Readonly<Record<PendingKind, number>>;

/** How many workers hold their lock, of those that take jobs of each kind. */
export async function countWorkersByKind(db: Db): Promise<WorkersByKind> {
  const { rows } = await sql<{ kind: PendingKind; count: number }>`
    with alive as materialized (select kinds from workers where not ${lockFree})
    select kind, count(*) as count from alive, unnest(kinds) as kind group by kind`.execute(db);
  const counts = new Map(rows.map(({ kind, count }) => [kind, count]));
  const countOf = (kind: PendingKind): number => counts.get(kind) ?? 0;
  return { step: countOf('step'), compaction: countOf('compaction'), prune: countOf('prune') };
}

/**
 * Leaves word that these locks were lost and those of others not, where nothing was heard of their workers since: for
 * whoever comes later and cannot know.
 */
export async function noteLostAlone(db: Db, workers: readonly WorkerSight[]): Promise<void> {
  await sql`
    with lost as (
      select workers.id from workers join unnest(
        ${workers.map(({ id }) => id)}::text[],
        ${workers.map(({ lockKey }) => lockKey)}::bigint[],
        ${workers.map((worker) => worker.seenAt)}::text[]
      ) as listed (id, lock_key, seen_at)
        on listed.id = workers.id and listed.lock_key = workers.lock_key
          and listed.seen_at = extract(epoch from workers.seen_at)::text
      where not workers.lost_alone order by workers.id for no key update of workers
    )
    update workers set lost_alone = true from lost where workers.id = lost.id`.execute(db);
}

/** Whether nothing has changed about a worker since it was listed with its lock free. */
export function stillDead(worker: WorkerSight): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select 1 from workers
    where id = ${worker.id} and lock_key = ${worker.lockKey} and ${seenAt} = ${worker.seenAt} and ${lockFree})`;
}

/**
 * Removes a dead worker that has nothing in hand any more. False: it still has, it lives, or
 * somebody else has removed it.
 */
export function forgetDeadWorker(db: Db, worker: WorkerSight): Promise<boolean> {
  return retire(db, worker.id, sql<boolean>`lock_key = ${worker.lockKey} and ${stillDead(worker)}`);
}

/** Removes a worker that has nothing in hand, and remembers it for longer than a claim that it has sent may wait. */
function retire(db: Db, id: string, isGone: RawBuilder<boolean>): Promise<boolean> {
  return inTransaction(db, async (tx) => {
    await sql`select baton_lock_burial(${id})`.execute(tx);
    // In a statement of its own: it sees the claims that the lock was waited for.
    const { numAffectedRows } = await sql`
      with gone as (
        delete from workers where id = ${id} and ${isGone} and ${hasNothingInHand(id)} returning id
      ), forgotten as (
        delete from dead_workers where died_at < clock_timestamp() - interval '1 day'
      )
      insert into dead_workers (id) select id from gone
      on conflict (id) do update set died_at = excluded.died_at`.execute(tx);
    return numAffectedRows === 1n;
  });
}

/** Whether a worker counts as alive: it has registered, and nobody has buried it since. */
export async function isRegistered(db: Db, workerId: string): Promise<boolean> {
  const { rows } = await sql`select 1 from workers where id = ${workerId}`.execute(db);
  return rows.length > 0;
}
