import { type RawBuilder, sql } from 'kysely';
import type { WorkerSight } from '../../domain/liveness/worker-liveness.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import type { Db, Tx } from '../db/database.ts';
import { stillDead } from './workers.ts';

/** Class of the advisory lock of the sweep over all processes; its key is the number of the table. */
const SWEEP_LOCK_CLASS = 1_652_651_121;

/** Runs `sweep` unless another process is sweeping. Null: it was not run. */
export async function asOnlySweeper<T>(db: Db, sweep: (tx: Tx) => Promise<T>): Promise<T | null> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ locked: boolean }>`
      select pg_try_advisory_xact_lock(${SWEEP_LOCK_CLASS}, 'runs'::regclass::oid::integer) as locked`.execute(tx);
    return rows[0]?.locked === true ? sweep(tx) : null;
  });
}

export type LeasedRun = Readonly<{ id: string; sessionId: string; resumeCount: number }>;

/** Milliseconds since Postgres started. No lease could be renewed before that. */
export async function readUptimeMs(db: Db): Promise<number> {
  const { rows } = await sql<{ uptimeMs: number }>`
    select (extract(epoch from clock_timestamp() - pg_postmaster_start_time()) * 1000)::float8 as "uptimeMs"`.execute(
    db,
  );
  return rows[0]?.uptimeMs ?? 0;
}

/** `unregistered`: only leases of workers without a row in `workers`. */
export type WhoseLeases = 'all' | 'unregistered';

const isOf = (whose: WhoseLeases): RawBuilder<boolean> =>
  whose === 'all'
    ? sql<boolean>`true`
    : sql<boolean>`not exists (select 1 from workers where workers.id = runs.lease_owner)`;

/** Runs whose worker has not renewed its lease in time. Tenants take turns. */
export async function findExpiredLeases(db: Db, limit: number, whose: WhoseLeases = 'all'): Promise<LeasedRun[]> {
  const { rows } = await sql<LeasedRun>`
    select id, session_id as "sessionId", resume_count as "resumeCount" from runs
    where is_claimed and status in ('running', 'cancelling')
      -- A volatile function cannot be an index condition; its value, taken once, can.
      and lease_expires_at < (select clock_timestamp()) and ${isOf(whose)}
    order by row_number() over (partition by tenant_id order by lease_expires_at), lease_expires_at
    limit ${limit}`.execute(db);
  return rows;
}

/**
 * Locks runs and checks their leases again.
 * @returns without those that are renewed or finished, and those whose session another transaction has locked
 */
export function lockExpiredLeases(
  tx: Tx,
  runs: readonly LeasedRun[],
  whose: WhoseLeases = 'all',
): Promise<LeasedRun[]> {
  return lockLeasedIf(tx, runs, sql<boolean>`lease_expires_at < clock_timestamp() and ${isOf(whose)}`);
}

export async function findRunsOfWorker(db: Db, workerId: string, limit: number): Promise<LeasedRun[]> {
  const { rows } = await sql<LeasedRun>`
    select id, session_id as "sessionId", resume_count as "resumeCount" from runs
    where is_claimed and status in ('running', 'cancelling') and lease_owner = ${workerId}
    order by lease_expires_at limit ${limit}`.execute(db);
  return rows;
}

/**
 * Locks runs and checks their worker again.
 * @returns none if the worker lives; else without those that have moved on, and those whose session is locked
 */
export function lockRunsOfDeadWorker(tx: Tx, runs: readonly LeasedRun[], worker: WorkerSight): Promise<LeasedRun[]> {
  return lockLeasedIf(tx, runs, sql<boolean>`lease_owner = ${worker.id} and ${stillDead(worker)}`);
}

async function lockLeasedIf(tx: Tx, runs: readonly LeasedRun[], lost: RawBuilder<boolean>): Promise<LeasedRun[]> {
  // All locks in one round trip, those of sessions first. A run is locked only if its session was free. Renewals lock
  // runs in the same order.
  const { rows: locked } = await sql<{ id: string }>`
    with free as materialized (
      select id from sessions where id = any(${runs.map(({ sessionId }) => sessionId)}::uuid[])
      order by id for no key update skip locked
    )
    select runs.id from runs join free on free.id = runs.session_id
    where runs.id = any(${runs.map(({ id }) => id)}::uuid[]) order by runs.id for no key update of runs`.execute(tx);
  if (locked.length === 0) return [];
  // A statement of its own: the one that waited for a lock still sees the rows from before its wait.
  const { rows } = await sql<LeasedRun>`
    select id, session_id as "sessionId", resume_count as "resumeCount" from runs
    where id = any(${locked.map(({ id }) => id)}::uuid[]) and is_claimed and status in ('running', 'cancelling')
      and ${lost}`.execute(tx);
  return rows;
}

export type PendingRun = JobPayload & Readonly<{ sessionId: string }>;

export type UnclaimedRun = PendingRun & Readonly<{ waitedMs: number; foundTaken: boolean }>;

/**
 * Pending work that has been due for more than `graceMs` and is unclaimed. Tenants take turns, and of each the longest
 * due comes first: however much one of them has, that of another is in the same sweep.
 */
export async function findUnclaimed(db: Db, graceMs: number, limit: number): Promise<UnclaimedRun[]> {
  const { rows } = await sql<UnclaimedRun>`
    with recursive due_since as materialized (
      select clock_timestamp() - make_interval(secs => ${graceMs / 1000}) as at
    ), lines as (
      (select pending_kind as kind, tenant_id from runs where due_at is not null order by pending_kind, tenant_id limit 1)
      union all
      select next.kind, next.tenant_id from lines cross join lateral (
        select pending_kind as kind, tenant_id from runs
        where due_at is not null and (pending_kind, tenant_id) > (lines.kind, lines.tenant_id)
        order by pending_kind, tenant_id limit 1) as next
    )
    select run.id as "runId", run.session_id as "sessionId", lines.kind, run.pending_no as no,
      run.pending_dispatch as dispatch, extract(epoch from clock_timestamp() - run.pending_at) * 1000 as "waitedMs",
      run.next_check_at is not null and run.found_taken as "foundTaken"
    from lines cross join lateral (
      select * from runs where due_at < (select at from due_since) and pending_kind = lines.kind
        and tenant_id = lines.tenant_id
      order by due_at limit ${limit}) as run
    order by row_number() over (partition by lines.tenant_id order by run.due_at), run.due_at limit ${limit}`.execute(
    db,
  );
  return rows;
}

/**
 * Puts off the next check by `delayMs`. False: a worker has claimed the run.
 * @param isTaken true: a worker has taken its job
 */
export async function postponeCheck(db: Db, job: JobPayload, delayMs: number, isTaken: boolean): Promise<boolean> {
  const { rows } = await sql`
    update runs set next_check_at = clock_timestamp() + make_interval(secs => ${delayMs / 1000}), found_taken = ${isTaken}
    where id = ${job.runId} and pending_kind = ${job.kind} and pending_no = ${job.no}
      and pending_dispatch = ${job.dispatch} and claim_id is null
    returning 1`.execute(db);
  return rows.length > 0;
}

/**
 * Raises the dispatch number, because BullMQ ignores a known id. Null: claimed meanwhile.
 * @param leftOut numbers in between that stay unused
 */
export async function redispatch(db: Db, job: JobPayload, leftOut = 0): Promise<PendingRun | null> {
  const { rows } = await sql<PendingRun>`
    update runs set pending_dispatch = pending_dispatch + 1 + ${leftOut}, found_taken = false
    where id = ${job.runId} and pending_kind = ${job.kind} and pending_no = ${job.no}
      and pending_dispatch = ${job.dispatch} and claim_id is null
    returning id as "runId", session_id as "sessionId",
      pending_kind as kind, pending_no as no, pending_dispatch as dispatch`.execute(db);
  return rows[0] ?? null;
}
