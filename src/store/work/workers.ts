import { type RawBuilder, sql } from 'kysely';
import type pg from 'pg';
import type { WorkerSight } from '../../domain/liveness/worker-liveness.ts';
import type { JobKind } from '../../domain/run/job.ts';
import { ENGINE_VERSION } from '../../domain/tunables.ts';
import { type Db, inTransaction } from '../db/database.ts';

/** Class of the workers' advisory locks: the number of their table, because a database may have several. */
const WORKER_LOCK_CLASS = `'workers'::regclass::oid::integer`;

/** The server drops a silent connection within 11 s. If it refuses one of these settings, its own default holds. */
const SERVER_PATIENCE: Readonly<Record<string, string>> = {
  tcp_keepalives_idle: '5',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '11000',
  client_connection_check_interval: '1000',
};

export type RegisteredWorker = Readonly<{ id: string; kinds: readonly JobKind[] }>;

export type RegistrationOptions = Readonly<{
  patience?: Readonly<Record<string, string>>;
  /** Called for each setting that the server refuses. */
  onRefused?: (error: unknown) => void;
}>;

/**
 * Takes the worker's advisory lock, which this connection holds, and then registers the worker under its key. A worker
 * that was retired may claim again.
 * @throws errors of Postgres
 */
export async function registerWorker(
  client: pg.ClientBase,
  worker: RegisteredWorker,
  { patience = SERVER_PATIENCE, onRefused = () => undefined }: RegistrationOptions = {},
): Promise<void> {
  const { rows } = await client.query<{ lockKey: number }>(
    `select key::integer as "lockKey", pg_advisory_lock(${WORKER_LOCK_CLASS}, key::integer)
     from (select nextval('worker_lock_keys') as key offset 0) as next`,
  );
  await client.query(
    `insert into workers (id, kinds, lock_key, engine) values ($1, $2, $3, $4)
     on conflict (id) do update set lock_key = excluded.lock_key, engine = excluded.engine, locked_at = excluded.locked_at,
       lost_alone = false, seen_at = clock_timestamp()`,
    [worker.id, worker.kinds, rows[0]?.lockKey, ENGINE_VERSION],
  );
  // A statement of its own, to see the retirement that the statement before may have waited for.
  await client.query('delete from dead_workers where id = $1', [worker.id]);
  for (const [name, value] of Object.entries(patience)) {
    await client.query('select set_config($1, $2, false)', [name, value]).catch(onRefused);
  }
}

export const lockFree = sql<boolean>`
  pg_try_advisory_xact_lock_shared(${sql.raw(WORKER_LOCK_CLASS)}, lock_key::integer)`;

/** A sign of life. It also clears `lost_alone`. */
export async function markWorkerSeen(db: Db, id: string): Promise<void> {
  await sql`update workers set seen_at = clock_timestamp(), lost_alone = false where id = ${id}`.execute(db);
}

/**
 * Marks other workers that hold their locks as alive. A watcher calls it once it has a new lock of its own: an outage
 * before that has not freed theirs.
 */
export async function markHoldersSeen(db: Db, ownId: string): Promise<void> {
  await sql`
    with holders as (select id from workers where id <> ${ownId} and not ${lockFree} order by id for no key update)
    update workers set seen_at = clock_timestamp() from holders where workers.id = holders.id`.execute(db);
}

const hasNothingInHand = (id: string): RawBuilder<boolean> => sql<boolean>`not exists (
  select 1 from runs where is_claimed and status in ('running', 'cancelling') and lease_owner = ${id})`;

/**
 * Removes a worker that ends. One that still has claims stays, so that the others find it dead and take back its runs.
 */
export async function removeWorker(db: Db, id: string): Promise<void> {
  await retire(db, id, sql<boolean>`true`);
}

/** Exact to the microsecond, and independent of the connection's time zone. */
const seenAt = sql<string>`extract(epoch from seen_at)::text`;
const lockedAt = sql<string>`extract(epoch from locked_at)::text`;

/** All workers, and whether their locks are free. Probes take a shared lock, so that they do not block each other. */
export async function listWorkers(db: Db): Promise<WorkerSight[]> {
  const { rows } = await sql<WorkerSight>`
    select id, lock_key as "lockKey", ${lockFree} as "lockFree", ${lockedAt} as "lockedAt", ${seenAt} as "seenAt",
      lost_alone as "lostAlone"
    from workers`.execute(db);
  return rows;
}

/**
 * Sets `lost_alone` for workers whose locks became free while others did not, unless they gave a sign of life since.
 * Later watchers rely on it.
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

/** Whether nothing has changed about a worker since it was listed with a free lock. */
export function stillDead(worker: WorkerSight): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select 1 from workers
    where id = ${worker.id} and lock_key = ${worker.lockKey} and ${seenAt} = ${worker.seenAt} and ${lockFree})`;
}

/** Retires a dead worker without claims. False: it has claims, it lives, or another watcher has retired it. */
export function forgetDeadWorker(db: Db, worker: WorkerSight): Promise<boolean> {
  return retire(db, worker.id, sql<boolean>`lock_key = ${worker.lockKey} and ${stillDead(worker)}`);
}

/** Removes a worker without claims, and keeps its id longer than a claim that it has sent may take to arrive. */
function retire(db: Db, id: string, isGone: RawBuilder<boolean>): Promise<boolean> {
  return inTransaction(db, async (tx) => {
    await sql`select baton_lock_retirement(${id})`.execute(tx);
    // A statement of its own, to see the claims that committed before the lock was granted.
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

export async function isRegistered(db: Db, workerId: string): Promise<boolean> {
  const { rows } = await sql`select 1 from workers where id = ${workerId}`.execute(db);
  return rows.length > 0;
}
