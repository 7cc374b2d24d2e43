import { sql } from 'kysely';
import type { NewEvent, SessionEvent } from '../domain/events.ts';
import type { Db, Tx } from './database.ts';
import { toJson } from './json.ts';

/** Appends to the session's log. The caller holds the session's lock: that is what keeps the numbers free of gaps. */
export async function appendEvents(
  tx: Tx,
  sessionId: string,
  runId: string | null,
  events: readonly NewEvent[],
): Promise<number> {
  const { rows } = await sql<{ seq: number }>`
    select baton_append_events(${sessionId}, ${runId}, ${toJson(events)}::jsonb) as seq`.execute(tx);
  const seq = rows[0]?.seq;
  if (seq === undefined) throw new Error('baton_append_events returned no row');
  return seq;
}

/** The session's events after `afterSeq`, in order. */
export async function readEvents(
  db: Db,
  tenantId: string,
  sessionId: string,
  afterSeq: number,
  limit: number,
): Promise<SessionEvent[]> {
  const rows = await db
    .selectFrom('events')
    .select(['seq', 'type', 'run_id', 'created_at', 'data'])
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .where('seq', '>', afterSeq)
    .orderBy('seq')
    .limit(limit)
    .execute();
  return rows.map((row) => ({
    seq: row.seq,
    type: row.type,
    runId: row.run_id,
    createdAt: row.created_at.toISOString(),
    data: row.data,
  }));
}

/**
 * The number of a run's last event of a type, or null where there is none, or none any more. Looks backwards: it costs
 * what has happened since, which whoever asks is about to read.
 */
export async function findLastRunEvent(
  db: Db,
  tenantId: string,
  { sessionId, runId }: Readonly<{ sessionId: string; runId: string }>,
  type: NewEvent['type'],
): Promise<number | null> {
  const row = await db
    .selectFrom('events')
    .select('seq')
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .where('run_id', '=', runId)
    .where('type', '=', type)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row?.seq ?? null;
}
