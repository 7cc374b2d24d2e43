import { type Selectable, sql } from 'kysely';
import type { NewEvent, SessionEvent } from '../../domain/run/events.ts';
import { MAX_PAGE_CONTENT_BYTES } from '../../domain/tunables.ts';
import type { Db, Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import type { Tables } from '../db/tables.ts';

/** Appends to the session's log. The caller holds the session's lock, which keeps the numbers without gaps. */
export async function appendEvents(
  tx: Tx,
  sessionId: string,
  runId: string | null,
  events: readonly NewEvent[],
): Promise<number> {
  const { rows } = await sql<{ seq: number }>`
    select baton_append_events(${sessionId}, ${runId}, ${toWrittenJson(events)}::jsonb) as seq`.execute(tx);
  const seq = rows[0]?.seq;
  if (seq === undefined) throw new Error('baton_append_events returned no row');
  return seq;
}

/** `hasMore`: the log goes on after this page. */
export type EventPage = Readonly<{ events: SessionEvent[]; hasMore: boolean }>;

type EventRow = Selectable<Tables['events']> & Readonly<{ found: number }>;

/** A page of events after `afterSeq`. At most `limit`; fewer if they are large, but at least one if any exists. */
export async function readEventPage(
  db: Db,
  tenantId: string,
  sessionId: string,
  { afterSeq, limit }: Readonly<{ afterSeq: number; limit: number }>,
): Promise<EventPage> {
  const { rows } = await sql<EventRow>`
    select seq, type, run_id, created_at, data, found from (
      select *, row_number() over by_seq as no, sum(data_bytes) over by_seq as total, count(*) over () as found from (
        select seq, type, run_id, created_at, data, data_bytes from events
        where session_id = ${sessionId} and tenant_id = ${tenantId} and seq > ${afterSeq} order by seq limit ${limit}
      ) as next window by_seq as (order by seq rows unbounded preceding)
    ) as page where no = 1 or total <= ${MAX_PAGE_CONTENT_BYTES} order by seq`.execute(db);
  const events = rows.map((row) => ({
    seq: row.seq,
    type: row.type,
    runId: row.run_id,
    createdAt: row.created_at.toISOString(),
    data: row.data,
  }));
  const found = rows[0]?.found ?? 0;
  return { events, hasMore: found === limit || found > events.length };
}

export async function readEvents(
  db: Db,
  tenantId: string,
  sessionId: string,
  { afterSeq, limit }: Readonly<{ afterSeq: number; limit: number }>,
): Promise<SessionEvent[]> {
  return (await readEventPage(db, tenantId, sessionId, { afterSeq, limit })).events;
}

/**
 * The wait of a run for answers, of its own calls and of those of runs below it. `beganSeq`: the event with which its
 * last wait began; `lastAsks`: the events with which these runs last asked, in the order of `askers`, which are public
 * ids. Null: there is none, or it was trimmed.
 */
export async function findWait(
  db: Db,
  { tenantId, sessionId, runId }: Readonly<{ tenantId: string; sessionId: string; runId: string }>,
  askers: readonly string[],
): Promise<Readonly<{ beganSeq: number | null; lastAsks: readonly (number | null)[] }>> {
  const ofRun = sql`e.session_id = ${sessionId} and e.tenant_id = ${tenantId} and e.run_id = ${runId}`;
  const isAsk = sql`(e.type = 'run:requires-action' or e.type = 'child:requires-action' and e.data -> 'calls' <> '[]')`;
  const { rows } = await sql<{ beganSeq: number | null; lastAsks: (number | null)[] }>`
    with last_ask as materialized (select max(e.seq) as seq from events e where ${ofRun} and ${isAsk}),
    last_step as materialized (
      select max(e.seq) as seq from events e
      where ${ofRun} and e.type = 'step:started' and e.seq < (select seq from last_ask))
    select (
      select min(e.seq) from events e
      where ${ofRun} and ${isAsk} and e.seq > coalesce((select seq from last_step), 0)
    ) as "beganSeq",
    array(
      select (
        select max(e.seq) from events e
        where ${ofRun} and ${isAsk} and coalesce(e.data ->> 'childRunId', e.data ->> 'runId') = asker.id
      ) from unnest(${[...askers]}::text[]) with ordinality as asker (id, nth) order by asker.nth
    ) as "lastAsks"`.execute(db);
  return rows[0] ?? { beganSeq: null, lastAsks: askers.map(() => null) };
}

/**
 * The number of a run's last event of this type; null if there is none, or it was trimmed. The query scans backwards,
 * over the events that the caller is about to read anyway.
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
