import { sql } from 'kysely';
import type { PendingKind, RunStatus } from '../../domain/run/run.ts';
import type { SessionStatus } from '../../domain/run/session.ts';
import type { Db } from '../db/database.ts';

export type ActiveRunCount = Readonly<{
  status: RunStatus;
  /** The pending work of the runs. Null: they require an action. */
  kind: PendingKind | null;
  count: number;
  /** Runs of `count` that wait for a slot of their tenant, not for a worker. */
  throttled: number;
  /** Age of the oldest due work that is neither claimed nor throttled. Null: none is due. */
  oldestDueMs: number | null;
}>;

/** The active runs by status and kind. Reads no run that has ended. */
export async function countActiveRuns(db: Db): Promise<ActiveRunCount[]> {
  const { rows } = await sql<ActiveRunCount>`
    select status, pending_kind as kind, count(*) as count, count(throttled_at) as "throttled",
      extract(epoch from clock_timestamp() - min(pending_at) filter (
        where claim_id is null and throttled_at is null and pending_at <= clock_timestamp()))::double precision * 1000 as "oldestDueMs"
    from runs
    -- The words of the partial index.
    where status in ('queued', 'running', 'requires_action', 'cancelling')
    group by status, pending_kind`.execute(db);
  return rows;
}

export type SessionCount = Readonly<{ status: SessionStatus; count: number }>;

/** All sessions by status. Scans a whole index, so do not call it every second. */
export async function countSessions(db: Db): Promise<SessionCount[]> {
  const { rows } = await sql<SessionCount>`
    select status, count(*) as count from sessions group by status`.execute(db);
  return rows;
}
