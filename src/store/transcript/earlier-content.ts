import { sql } from 'kysely';
import { parseId } from '../../domain/ids.ts';
import { isBlank } from '../../domain/model/model-frames.ts';
import type { FilePart, Part } from '../../domain/transcript/message.ts';
import { outputText } from '../../domain/transcript/output-text.ts';
import { fileRef, messageRef, outputRef, type PartPlace } from '../../domain/transcript/refs.ts';
import type { Db } from '../db/database.ts';
import { readSessionBlob, readTextBlob } from './blobs.ts';
import type { MessageKey } from './message-key.ts';
import { toPart } from './messages.ts';

export type StoredOutput = Readonly<
  | { kind: 'found'; toolName: string; text: string }
  /** The call has no result yet. */
  | { kind: 'open'; toolName: string }
  | { kind: 'missing' }
>;

/** The whole output of a call, even if the view shows only a part of it or a placeholder. */
export async function readToolOutput(db: Db, sessionId: string, place: PartPlace): Promise<StoredOutput> {
  const part = await readPart(db, sessionId, place, 'tool');
  if (part?.type !== 'tool') return { kind: 'missing' };
  const { toolName, output, outputBlobId } = part;
  if (output === undefined) return { kind: 'open', toolName };
  const blobId = outputBlobId === undefined ? null : parseId('blob', outputBlobId);
  const whole = blobId === null ? null : await readTextBlob(db, sessionId, blobId);
  return { kind: 'found', toolName, text: whole ?? outputText(output) };
}

/** A file that a user attached. `bytes` is null if the session has only its address. */
export type AttachedContent = Readonly<{ file: FilePart; bytes: Buffer | null }>;

/** Null: there is no file at this place. */
export async function readAttachedFile(db: Db, sessionId: string, place: PartPlace): Promise<AttachedContent | null> {
  const part = await readPart(db, sessionId, place, 'file');
  if (part?.type !== 'file') return null;
  const blobId = part.url.startsWith(BLOB_SCHEME) ? parseId('blob', part.url.slice(BLOB_SCHEME.length)) : null;
  return { file: part, bytes: blobId === null ? null : await readSessionBlob(db, sessionId, blobId) };
}

const BLOB_SCHEME = '@blob:';

async function readPart(db: Db, sessionId: string, place: PartPlace, type: Part['type']): Promise<Part | null> {
  const row = await db
    .selectFrom('messages')
    .innerJoin('parts', (of) =>
      of.onRef('parts.session_id', '=', 'messages.session_id').onRef('parts.message_id', '=', 'messages.id'),
    )
    .select(['parts.content', 'parts.state'])
    .where('messages.session_id', '=', sessionId)
    .where('messages.seq', '=', place.messageSeq)
    .where('messages.reverted_no', 'is', null)
    .where('parts.idx', '=', place.partIndex)
    .where('parts.type', '=', type)
    .executeTakeFirst();
  return row === undefined ? null : toPart(row.content, row.state);
}

/** The text of a message, with references to its files and outputs. Null: there is no such message. */
export async function readMessageText(db: Db, sessionId: string, seq: number): Promise<string | null> {
  const rows = await db
    .selectFrom('messages')
    .innerJoin('parts', (of) =>
      of.onRef('parts.session_id', '=', 'messages.session_id').onRef('parts.message_id', '=', 'messages.id'),
    )
    .select(['parts.idx', 'parts.content', 'parts.state'])
    .where('messages.session_id', '=', sessionId)
    .where('messages.seq', '=', seq)
    .where('messages.reverted_no', 'is', null)
    .where('parts.type', 'in', ['text', 'file', 'tool'])
    .orderBy('parts.idx')
    .execute();
  if (rows.length === 0) return null;
  return rows.map(({ idx, content, state }) => describePart(toPart(content, state), seq, idx)).join('\n\n');
}

function describePart(part: Part, seq: number, index: number): string {
  if (part.type === 'text') return part.text;
  if (part.type === 'tool') return `[call of ${part.toolName}; its output: ${outputRef(seq, index)}]`;
  if (part.type !== 'file') return '';
  return `[attached ${part.mediaType}: ${nameOf(part.filename)}; id ${fileRef(seq, index)}]`;
}

const nameOf = (filename: string | undefined): string =>
  filename === undefined || isBlank(filename) ? 'unnamed' : filename;

/** Only the newest messages are listed. */
const LISTED_MESSAGES = 2_000;
const LISTED_CHARS = 160;

type ListedMessage = Readonly<{ seq: number; begins: string | null; chars: number; files: number }>;

/** One line for each user message, newest first: its id and its beginning. */
export async function listUserMessages(db: Db, sessionId: string): Promise<string> {
  const { rows } = await sql<ListedMessage>`
    select seq, left(said.text, ${LISTED_CHARS}) as begins, coalesce(length(said.text), 0) as chars, said.files
    from (
      select id, seq from messages
      where session_id = ${sessionId} and role = 'user' and not superseded and reverted_no is null and not is_summary
      order by seq desc limit ${LISTED_MESSAGES}
    ) as newest, lateral (
      select string_agg(content->>'text', ' ' order by idx) filter (where type = 'text') as text,
        (count(*) filter (where type = 'file'))::int as files
      from parts where session_id = ${sessionId} and message_id = newest.id
    ) as said order by seq desc`.execute(db);
  return rows.map(lineOf).join('\n');
}

function lineOf({ seq, begins, chars, files }: ListedMessage): string {
  const more = chars > LISTED_CHARS ? ` … (${chars} characters)` : '';
  const attached = files === 0 ? '' : ` [${files === 1 ? '1 file' : `${files} files`} attached]`;
  return `${messageRef(seq)}: ${(begins ?? '').replaceAll(/\s+/g, ' ').trim()}${more}${attached}`;
}

export async function readMessageSeq(db: Db, { sessionId, messageId }: MessageKey): Promise<number> {
  const message = db
    .selectFrom('messages')
    .select('seq')
    .where('id', '=', messageId)
    .where('session_id', '=', sessionId);
  return (await message.executeTakeFirstOrThrow()).seq;
}
