import { sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { Tx } from '../db/database.ts';
import { type LockedSession, lockSession } from '../session/sessions.ts';
import { appendEvents } from '../transcript/events.ts';
import { contextOf, findFinishedSeq } from './fork.ts';

/** A change of a session's transcript: the messages after `seq`, up to `uptoSeq`, left it or came back. */
export type Reverted = Readonly<{
  messageId: string;
  seq: number;
  messages: number;
  /** Null: there was nothing to change. */
  eventSeq: number | null;
}>;

/**
 * Takes the messages after this one out of the transcript and the view. Their rows stay, and so do runs and usage. The
 * view is the one that the session had at that message.
 * @throws BatonError `not_found`; `conflict` for an unfinished message; `session_busy` while a run is active
 */
export async function revertSession(
  tx: Tx,
  { tenantId, sessionId, messageId }: Readonly<{ tenantId: string; sessionId: string; messageId: string }>,
): Promise<Reverted> {
  const session = await lockSession(tx, tenantId, sessionId);
  refuseAtWork(session);
  const seq = await findFinishedSeq(tx, { tenantId, sessionId, messageId });
  const { rows } = await sql<{ no: number; messages: number }>`
    with next as (select coalesce(max(no), 0) + 1 as no from session_reverts where session_id = ${sessionId}),
      taken as (
        update messages set reverted_no = next.no from next
        where session_id = ${sessionId} and seq > ${seq} and reverted_no is null and not superseded returning 1
      )
    select next.no, (select count(*)::integer from taken) as messages from next`.execute(tx);
  const { no, messages } = rows[0] ?? { no: 1, messages: 0 };
  if (messages === 0) return { messageId, seq, messages, eventSeq: null };
  await tx
    .insertInto('session_reverts')
    .values({
      session_id: sessionId,
      no,
      tenant_id: tenantId,
      message_id: messageId,
      to_seq: seq,
      upto_seq: session.message_seq,
      message_count: messages,
      view_start_seq: session.view_start_seq,
      summary_message_seq: session.summary_message_seq,
    })
    .execute();
  await setView(tx, session, await viewAt(tx, session, seq));
  const data = { messageId: formatId('message', messageId), seq, uptoSeq: session.message_seq, messages };
  const eventSeq = await appendEvents(tx, sessionId, null, [{ type: 'session:reverted', data }]);
  return { messageId, seq, messages, eventSeq };
}

/**
 * Undoes the newest revert that is not undone. Only while no message has come since: that one would stand between.
 * @throws BatonError `not_found`; `conflict` if there is nothing to undo; `session_busy` while a run is active
 */
export async function unrevertSession(
  tx: Tx,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
): Promise<Reverted> {
  const session = await lockSession(tx, tenantId, sessionId);
  refuseAtWork(session);
  const last = await tx
    .selectFrom('session_reverts')
    .selectAll()
    .where('session_id', '=', sessionId)
    .where('undone_at', 'is', null)
    .orderBy('no', 'desc')
    .limit(1)
    .executeTakeFirst();
  const name = `session ${formatId('session', sessionId)}`;
  if (last === undefined) throw new BatonError('conflict', `${name} has no revert to undo`);
  if (last.upto_seq !== session.message_seq) {
    throw new BatonError('conflict', `${name} has got a message since its last revert, which can no longer be undone`);
  }
  await sql`
    update messages set reverted_no = null where session_id = ${sessionId} and seq > ${last.to_seq}
      and seq <= ${last.upto_seq} and reverted_no = ${last.no}`.execute(tx);
  await tx
    .updateTable('session_reverts')
    .set({ undone_at: sql`clock_timestamp()` })
    .where('session_id', '=', sessionId)
    .where('no', '=', last.no)
    .execute();
  await setView(tx, session, last);
  const { message_id: messageId, to_seq: seq, message_count: messages } = last;
  const data = { messageId: formatId('message', messageId), seq, uptoSeq: last.upto_seq, messages };
  const eventSeq = await appendEvents(tx, sessionId, null, [{ type: 'session:unreverted', data }]);
  return { messageId, seq, messages, eventSeq };
}

function refuseAtWork({ id, active_run_id: runId }: LockedSession): void {
  if (runId === null) return;
  const name = `session ${formatId('session', id)}`;
  const run = formatId('run', runId);
  throw new BatonError('session_busy', `${name} is at work: cancel ${run}, or wait for its end`);
}

type View = Readonly<{ view_start_seq: number; summary_message_seq: number | null }>;

/** The view after the newest compaction whose summary stands at this message or before it. */
async function viewAt(tx: Tx, session: LockedSession, seq: number): Promise<View> {
  const { rows } = await sql<{ uptoSeq: number; summarySeq: number }>`
    select upto_seq as "uptoSeq", summary_message_seq as "summarySeq" from compactions
    where session_id = ${session.id} and state = 'completed' and summary_message_seq <= ${seq} and exists (
      select from messages where session_id = ${session.id} and seq = summary_message_seq and reverted_no is null)
    order by round desc limit 1`.execute(tx);
  const [last] = rows;
  if (last === undefined) return { view_start_seq: 1, summary_message_seq: null };
  if (last.summarySeq === session.summary_message_seq) return session;
  return { view_start_seq: last.uptoSeq + 1, summary_message_seq: last.summarySeq };
}

/**
 * The next step reads this view from its beginning. What was known of the last request goes; so do the names by which
 * clients find the session that send their whole conversation, because that is another one now.
 */
async function setView(tx: Tx, session: LockedSession, view: View): Promise<void> {
  await tx
    .updateTable('sessions')
    .set({
      view_start_seq: view.view_start_seq,
      summary_message_seq: view.summary_message_seq,
      view_version: sql`view_version + 1`,
      context_state: contextOf(session),
      conversation_asked: null,
      conversation_head: null,
    })
    .where('id', '=', session.id)
    .execute();
}
