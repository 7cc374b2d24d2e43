import { sql } from 'kysely';
import {
  mergeResources,
  type TouchedResource,
  touchedResources,
} from '../../domain/context/compaction/touched-files.ts';
import type { ErrorRecord } from '../../domain/errors.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import type { Db, Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import { toPart } from './messages.ts';

/** The compaction that a worker left open, or null. The next worker that claims the session's run may close it. */
export async function findOpenCompaction(db: Db, sessionId: string): Promise<string | null> {
  const row = await db
    .selectFrom('compactions')
    .select('id')
    .where('session_id', '=', sessionId)
    .where('state', '=', 'running')
    .executeTakeFirst();
  return row?.id ?? null;
}

/** Closes the compaction of a run that ends without its worker. The caller holds both locks and writes the events. */
export async function closeOpenCompaction(tx: Tx, sessionId: string, error: ErrorRecord): Promise<NewEvent[]> {
  const { rows } = await sql<{ id: string }>`
    with closed as (
      update compactions set state = 'failed', error = ${toJson(error)}::jsonb, finished_at = clock_timestamp()
      where session_id = ${sessionId} and state = 'running' returning id
    ), cleared as (
      update sessions set compacting_since = null where id = ${sessionId} and compacting_since is not null
    )
    select id from closed`.execute(tx);
  return rows.map(() => roundLeftOpen(error));
}

/** The event for a compaction that its worker did not finish. The number of its model calls is unknown. */
export function roundLeftOpen(error: ErrorRecord): NewEvent {
  return { type: 'compaction:failed', data: { error, attempts: 0 } };
}

/** Calls per page. A session may have 100,000 calls, with inputs of megabytes. */
const PAGE_SIZE = 500;

/** All files and resources that the calls of a session touched, newest first, also those no longer in the view. */
export async function listTouchedResources(db: Db, sessionId: string): Promise<TouchedResource[]> {
  let touched: TouchedResource[] = [];
  let after = { seq: 0, idx: -1 };
  for (;;) {
    const { seq, idx } = after;
    const rows = await db
      .selectFrom('messages')
      // By their messages, never by a look through the session for each page: `offset` keeps the planner from that.
      .innerJoinLateral(
        (of) =>
          of
            .selectFrom('parts')
            .select(['parts.idx', 'parts.content', 'parts.state'])
            .whereRef('parts.session_id', '=', 'messages.session_id')
            .whereRef('parts.message_id', '=', 'messages.id')
            .where('parts.type', '=', 'tool')
            .offset(0)
            .as('calls'),
        (join) => join.onTrue(),
      )
      .select(['messages.seq', 'calls.idx', 'calls.content', 'calls.state'])
      .where('messages.session_id', '=', sessionId)
      .where('messages.superseded', '=', false)
      .where('messages.reverted_no', 'is', null)
      .where((where) =>
        where.or([
          where('messages.seq', '>', seq),
          where.and([where('messages.seq', '=', seq), where('calls.idx', '>', idx)]),
        ]),
      )
      .orderBy('messages.seq')
      .orderBy('calls.idx')
      .limit(PAGE_SIZE)
      .execute();
    const parts = rows.map((row) => toPart(row.content, row.state));
    touched = mergeResources(touchedResources([{ parts }]), touched);
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE_SIZE) return touched;
    after = { seq: last.seq, idx: last.idx };
  }
}
