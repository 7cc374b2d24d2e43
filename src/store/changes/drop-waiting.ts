import { formatId } from '../../domain/ids.ts';
import type { Tx } from '../db/database.ts';
import type { LockedSession } from '../session/sessions.ts';
import { appendEvents } from '../transcript/events.ts';
import { renewFirstWords } from './first-words.ts';

export type DroppedMessage = Readonly<{ id: string; seq: number }>;

/**
 * Removes one or all queued messages, and the promised run if no message waits for it any more. The caller holds
 * the session's lock.
 * @returns null: no message was queued
 */
export async function dropWaiting(
  tx: Tx,
  session: Pick<LockedSession, 'id' | 'active_run_id' | 'message_seq'>,
  messageId: string | null,
): Promise<Readonly<{ dropped: readonly DroppedMessage[]; eventSeq: number }> | null> {
  const rows = await tx
    .deleteFrom('inbox')
    .where('session_id', '=', session.id)
    .where('consumed_message_seq', 'is', null)
    .$if(messageId !== null, (query) => query.where('id', '=', messageId ?? ''))
    .returning(['id', 'seq'])
    .execute();
  if (rows.length === 0) return null;
  const dropped = rows.toSorted((a, b) => a.seq - b.seq);
  await forgetPromise(tx, session.id);
  await renewFirstWords(tx, session);
  const ids = dropped.map(({ id }) => formatId('message', id));
  const eventSeq = await appendEvents(tx, session.id, session.active_run_id, [
    { type: 'message:removed', data: { ids } },
  ]);
  return { dropped, eventSeq };
}

/**
 * Clears the promised run if no message waits for it and no resume was requested. The caller holds the session's lock.
 */
export async function forgetPromise(tx: Tx, sessionId: string): Promise<void> {
  const waiting = await tx
    .selectFrom('inbox')
    .select('id')
    .where('session_id', '=', sessionId)
    .where('consumed_message_seq', 'is', null)
    .where('run_id', 'is', null)
    .limit(1)
    .executeTakeFirst();
  if (waiting === undefined) {
    await tx
      .updateTable('sessions')
      .set({ next_run_id: null })
      .where('id', '=', sessionId)
      .where('requested_resume', 'is', null)
      .execute();
  }
}
