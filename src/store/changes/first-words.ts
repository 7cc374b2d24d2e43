import { z } from 'zod';
import { firstWords } from '../../domain/run/session-name.ts';
import { userPartSchema } from '../../domain/transcript/message.ts';
import type { Tx } from '../db/database.ts';
import type { LockedSession } from '../session/sessions.ts';

/**
 * Takes the first words anew from the queued messages after one of them was changed or removed, unless the transcript has
 * words already. The caller holds the session's lock.
 */
export async function renewFirstWords(tx: Tx, session: Pick<LockedSession, 'id' | 'message_seq'>): Promise<void> {
  if (session.message_seq > 0) return;
  const first = await tx
    .selectFrom('inbox')
    .select('content')
    .where('session_id', '=', session.id)
    .where('consumed_message_seq', 'is', null)
    .where('origin', '=', 'user')
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst();
  const parts = z.array(userPartSchema).parse(first?.content ?? []);
  await tx
    .updateTable('sessions')
    .set({ first_words: firstWords(parts) })
    .where('id', '=', session.id)
    .execute();
}
