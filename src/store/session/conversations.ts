import { type RawBuilder, sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import type { NewMessage } from '../../domain/model/imported-transcript.ts';
import { firstWords } from '../../domain/run/session-name.ts';
import type { UserPart } from '../../domain/transcript/message.ts';
import { REPEATED_WITHIN_MS } from '../../domain/tunables.ts';
import { newId } from '../../platform/new-id.ts';
import type { Db, Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import { keepAnswerFiles, keepFilesTogether, keepUserFiles } from '../transcript/media.ts';
import { type LockedSession, lockSession, sessionNotFound } from './sessions.ts';

/** The tenant and agent whose sessions a conversation may be in. */
export type ConversationOwner = Readonly<{ tenantId: string; agentName: string }>;

/** If the hash of more sessions matches, only the newest are tried. */
const MAX_CANDIDATES = 20;

/** A run that was cancelled, or that ended more than a minute ago, answers no retry. */
const isRepeatable = sql<boolean>`(r.id is null or r.status not in ('cancelling', 'cancelled')
  and coalesce(r.finished_at > clock_timestamp() - make_interval(secs => ${REPEATED_WITHIN_MS / 1_000}), true))`;

/** Ids of the sessions whose client was told exactly the conversation with this hash, the newest first. */
export const findAnsweredSessions = (db: Db, owner: ConversationOwner, historyHash: Uint8Array): Promise<string[]> =>
  findCandidates(db, owner, sql`s.conversation_head = ${historyHash}`);

/** Ids of the sessions whose newest message came with the conversation of this hash and answers a retry. */
export const findSessionsByQuestion = (db: Db, owner: ConversationOwner, questionHash: Uint8Array): Promise<string[]> =>
  findCandidates(
    db,
    owner,
    sql`s.conversation_asked = ${questionHash} and exists (
      select 1 from inbox i left join runs r on r.id = i.run_id
      where i.session_id = s.id and i.seq = s.inbox_seq and ${isRepeatable})`,
  );

async function findCandidates(
  db: Db,
  { tenantId, agentName }: ConversationOwner,
  condition: RawBuilder<unknown>,
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select s.id from sessions s where s.tenant_id = ${tenantId} and s.agent_name = ${agentName} and ${condition}
    order by s.updated_at desc limit ${MAX_CANDIDATES}`.execute(db);
  return rows.map(({ id }) => id);
}

/** The newest message of a locked session. Null: its run answers no retry. */
export async function findRepeatableMessage(tx: Tx, sessionId: string): Promise<string | null> {
  const { rows } = await sql<{ id: string; isRepeatable: boolean }>`
    select i.id, ${isRepeatable} as "isRepeatable" from inbox i left join runs r on r.id = i.run_id
    where i.session_id = ${sessionId} order by i.seq desc limit 1`.execute(tx);
  const [newest] = rows;
  return newest?.isRepeatable === true ? newest.id : null;
}

/**
 * Locks the sessions one after the other until `work` has a result. A session without one is unlocked again, so that a
 * transaction never holds two. `work` reads from the lock whether the session still is the one: the holder before may
 * have continued the conversation.
 */
export async function inFirstSession<Result>(
  tx: Tx,
  tenantId: string,
  sessionIds: AsyncIterable<string>,
  work: (session: LockedSession) => Promise<Result | null>,
): Promise<Result | null> {
  for await (const id of sessionIds) {
    await sql`savepoint before_candidate`.execute(tx);
    const result = await work(await lockSession(tx, tenantId, id));
    if (result !== null) return result;
    await sql`rollback to savepoint before_candidate`.execute(tx);
  }
  return null;
}

export type Question = Readonly<{
  /** The hash of the conversation up to it. */
  questionHash: Uint8Array;
  /** New expiry of the session, if it has one at all. Null: unchanged. */
  keptUntil: Date | null;
}>;

/** Stores a question in the transaction that accepts it. The caller holds the session's lock. */
export async function storeQuestion(tx: Tx, sessionId: string, { questionHash, keptUntil }: Question): Promise<void> {
  await tx
    .updateTable('sessions')
    .set({
      conversation_asked: Buffer.from(questionHash),
      conversation_head: null,
      // A later expiry stays, and so does a session without one.
      ...(keptUntil !== null && {
        expires_at: sql<Date>`case when expires_at is not null then greatest(expires_at, ${keptUntil}) end`,
      }),
    })
    .where('id', '=', sessionId)
    .execute();
}

/** Stores the hash of the conversation with its answer, unless the session has a newer question or message. */
export async function storeAnswer(
  db: Db,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
  { questionHash, answerHash }: Readonly<{ questionHash: Uint8Array; answerHash: Uint8Array }>,
): Promise<void> {
  await db
    .updateTable('sessions')
    .set({ conversation_head: Buffer.from(answerHash) })
    .where('id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .where('conversation_asked', '=', Buffer.from(questionHash))
    .execute();
}

/** The session that accepted the message with this id. Null: none of the tenant did, or the message was removed. */
export async function findSessionOfQueued(db: Db, tenantId: string, messageId: string): Promise<string | null> {
  const row = await db
    .selectFrom('inbox')
    .select('session_id')
    .where('tenant_id', '=', tenantId)
    .where('id', '=', messageId)
    .executeTakeFirst();
  return row?.session_id ?? null;
}

/**
 * The agent of a session without the adaptations of a request.
 * @throws BatonError `not_found`
 */
export async function readAgentBase(db: Db, tenantId: string, sessionId: string): Promise<unknown> {
  const row = await db
    .selectFrom('sessions')
    .select(['agent_base', 'agent_snapshot'])
    .where('id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  if (row === undefined) throw sessionNotFound(sessionId);
  return row.agent_base ?? row.agent_snapshot;
}

/**
 * Replaces the adaptations that an earlier request made to the session's copy of the agent.
 * @param adapt derives the adapted agent from the one that the session was created with
 */
export async function adaptAgent(
  tx: Tx,
  session: Readonly<{ id: string; agent_base: unknown; agent_snapshot: unknown }>,
  adapt: (base: unknown) => Promise<unknown>,
): Promise<void> {
  const base = session.agent_base ?? session.agent_snapshot;
  const adapted = await adapt(base);
  await tx
    .updateTable('sessions')
    .set({ agent_snapshot: toWrittenJson(adapted), agent_base: toWrittenJson(base) })
    .where('id', '=', session.id)
    // Compared as `jsonb`: the order of keys does not count.
    .where(sql<boolean>`agent_snapshot <> ${toWrittenJson(adapted)}::jsonb`)
    .execute();
}

/**
 * Writes an earlier conversation into an unused session, with its files as blobs.
 * @param said the message that the same transaction accepts next
 * @throws BatonError `invalid_request` (an invalid file); `conflict` (the tenant has no such session, or it is used)
 */
export async function importConversation(
  tx: Tx,
  session: Readonly<{ tenantId: string; id: string }>,
  messages: readonly NewMessage[],
  said: readonly UserPart[] = [],
): Promise<void> {
  const owner = { tenantId: session.tenantId, sessionId: session.id };
  const unused = await tx
    .updateTable('sessions')
    .set({ message_seq: messages.length, first_words: firstWordsOf(messages) })
    .where('id', '=', session.id)
    .where('tenant_id', '=', session.tenantId)
    .where('message_seq', '=', 0)
    .returning('id')
    .executeTakeFirst();
  if (unused === undefined) throw new BatonError('conflict', 'the session is used already');
  await keepFilesTogether(tx, owner, [...messages.flatMap(({ parts }) => parts), ...said]);
  const rows: ImportedRow[] = [];
  for (const [index, { role, parts }] of messages.entries()) {
    const content = parts.flatMap((part) => (part.type === 'text' || part.type === 'file' ? [part] : []));
    const summaries = parts.filter(({ type }) => type === 'compaction');
    const kept =
      role === 'user'
        ? [...summaries, ...(await keepUserFiles(tx, owner, content))]
        : await keepAnswerFiles(tx, session.id, parts);
    rows.push({ id: newId(), seq: index + 1, role, parts: kept });
  }
  for (const piece of piecesOf(rows)) await writeImported(tx, session, piece);
}

function firstWordsOf(messages: readonly NewMessage[]): string | null {
  const first = messages.find(({ role }) => role === 'user');
  return firstWords(first?.parts.flatMap((part) => (part.type === 'text' || part.type === 'file' ? [part] : [])) ?? []);
}

type ImportedRow = NewMessage & Readonly<{ id: string; seq: number }>;

/** Characters of messages per statement. A larger message gets its own statement. */
const MAX_STATEMENT_CHARS = 1_000_000;

/** The messages as JSON arrays, one for each statement. */
function* piecesOf(rows: readonly ImportedRow[]): Generator<string> {
  let piece: string[] = [];
  let chars = 0;
  for (const row of rows) {
    const json = toWrittenJson(row);
    if (piece.length > 0 && chars + json.length > MAX_STATEMENT_CHARS) {
      yield `[${piece.join(',')}]`;
      piece = [];
      chars = 0;
    }
    piece.push(json);
    chars += json.length;
  }
  if (piece.length > 0) yield `[${piece.join(',')}]`;
}

/** @param rows a JSON array */
async function writeImported(tx: Tx, session: Readonly<{ tenantId: string; id: string }>, rows: string): Promise<void> {
  await sql`
    with given as (
      select * from jsonb_to_recordset(${rows}::jsonb) as g (id uuid, seq bigint, role text, parts jsonb)
    ), written as (
      insert into messages (id, tenant_id, session_id, seq, role, finish_reason, finished_at, metadata)
      select id, ${session.tenantId}, ${session.id}, seq, role,
        case when role = 'assistant' then 'other' end, clock_timestamp(), '{"imported": true}' from given
    )
    insert into parts (session_id, message_id, idx, tenant_id, type, content, tool_call_id, tool_name, state,
      finished_at)
    select ${session.id}, g.id, e.ord - 1, ${session.tenantId}, e.part ->> 'type', e.part - 'state',
      e.part ->> 'toolCallId', e.part ->> 'toolName', e.part ->> 'state', clock_timestamp()
    from given g, jsonb_array_elements(g.parts) with ordinality as e (part, ord)`.execute(tx);
}

/** The session that has a message in its transcript. Null: the tenant has no such message. */
export async function findSessionOfMessage(db: Db, tenantId: string, messageId: string): Promise<string | null> {
  const row = await db
    .selectFrom('messages')
    .select('session_id')
    .where('id', '=', messageId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return row?.session_id ?? null;
}
