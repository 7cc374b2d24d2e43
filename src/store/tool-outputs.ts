import { outputText } from '../domain/context/output-cap.ts';
import type { OutputPlace } from '../domain/context/output-ref.ts';
import { parseId } from '../domain/ids.ts';
import { readTextBlob } from './blobs.ts';
import type { Db } from './database.ts';
import { toPart } from './messages.ts';

/** What a session has at the place of an output. */
export type StoredOutput = Readonly<
  | { kind: 'found'; toolName: string; text: string }
  /** A call is there, and has no result yet. */
  | { kind: 'open'; toolName: string }
  | { kind: 'missing' }
>;

/** The whole output of a call of this session, also where the view shows a part of it or a placeholder. */
export async function readToolOutput(db: Db, sessionId: string, place: OutputPlace): Promise<StoredOutput> {
  const row = await db
    .selectFrom('messages')
    .innerJoin('parts', 'parts.message_id', 'messages.id')
    .select(['parts.content', 'parts.state'])
    .where('messages.session_id', '=', sessionId)
    .where('messages.seq', '=', place.messageSeq)
    .where('parts.idx', '=', place.partIndex)
    .where('parts.type', '=', 'tool')
    .executeTakeFirst();
  const part = row === undefined ? null : toPart(row.content, row.state);
  if (part?.type !== 'tool') return { kind: 'missing' };
  const { toolName, output, outputBlobId } = part;
  if (output === undefined) return { kind: 'open', toolName };
  const blobId = outputBlobId === undefined ? null : parseId('blob', outputBlobId);
  const whole = blobId === null ? null : await readTextBlob(db, sessionId, blobId);
  return { kind: 'found', toolName, text: whole ?? outputText(output) };
}

/** The number of a message in its session. */
export async function readMessageSeq(db: Db, messageId: string): Promise<number> {
  const { seq } = await db.selectFrom('messages').select('seq').where('id', '=', messageId).executeTakeFirstOrThrow();
  return seq;
}
