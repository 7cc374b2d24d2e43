import { sql } from 'kysely';
import type { PendingKind, RunStatus } from '../domain/run/run.ts';
import type { SessionStatus } from '../domain/run/session.ts';
import type { Db } from './database.ts';

export type ActiveRunCount = Readonly<{
  status: RunStatus;
  /** What the runs wait for a worker to do, or what one does; null while they wait for a person. */
  kind: PendingKind | null;
  count: number;
  /** Those of them that wait for their tenant's other runs, not for a worker. */
  throttled: number;
  /** Since the oldest of the others that nobody has claimed was due; null where none is due. */
  oldestDueMs: number | null;
}>;

/** The runs that have not ended, by status and kind. Reads no other run, however many have ended. */
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

/** All sessions by status: reads a whole index, or the table where that is small. Not to be asked every second. */
export async function countSessions(db: Db): Promise<SessionCount[]> {
  const { rows } = await sql<SessionCount>`
    select status, count(*) as count from sessions group by status`.execute(db);
  return rows;
}
