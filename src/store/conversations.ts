import { type RawBuilder, sql } from 'kysely';
import { BatonError } from '../domain/errors.ts';
import type { NewMessage } from '../domain/model/from-model-messages.ts';
import { type Turn, type TurnPlace, type TurnState, turnSchema } from '../domain/run/turn.ts';
import type { UserPart } from '../domain/transcript/message.ts';
import { newId } from '../platform/new-id.ts';
import type { Db, Tx } from './database.ts';
import { toJson } from './json.ts';
import { keepAnswerFiles, keepFilesTogether, keepUserFiles } from './media.ts';
import { lockSession } from './sessions.ts';

/** A session and its turn, locked until the transaction ends. */
export type TakenTurn = TurnState & Readonly<{ sessionId: string; asked: Uint8Array }>;

type Owner = Readonly<{ tenantId: string; agentName: string }>;

/** If the hash of more sessions matches, only the newest are tried. */
const MAX_CANDIDATES = 20;

/**
 * Finds and locks a session by its conversation hash, if `accepts` agrees before and after the lock. Of two requests
 * that continue the same conversation, the second finds it changed; a rejected session is unlocked again, so that a
 * transaction never holds two.
 * @param place the hash up to the last question, or including the answer
 */
export async function takeTurn(
  tx: Tx,
  owner: Owner,
  place: Readonly<{ asked: Uint8Array } | { answered: Uint8Array }>,
  accepts: (turn: TakenTurn) => boolean | Promise<boolean>,
): Promise<TakenTurn | null> {
  const where =
    'asked' in place ? sql`s.conversation_asked = ${place.asked}` : sql`s.conversation_head = ${place.answered}`;
  const mine = sql`s.tenant_id = ${owner.tenantId} and s.agent_name = ${owner.agentName} and ${where}`;
  for (const seen of await readTurns(tx, mine)) {
    if (!(await accepts(seen))) continue;
    await sql`savepoint before_candidate`.execute(tx);
    await lockSession(tx, owner.tenantId, seen.sessionId);
    // Read again: the previous holder of the lock may have changed the turn.
    const [turn] = await readTurns(tx, sql`${mine} and s.id = ${seen.sessionId}`);
    if (turn !== undefined && (await accepts(turn))) return turn;
    await sql`rollback to savepoint before_candidate`.execute(tx);
  }
  return null;
}

/** The turn of a session that the caller has locked. Null: it has none, or a newer message has cleared it. */
export async function readTurn(tx: Tx, sessionId: string): Promise<TakenTurn | null> {
  const [turn] = await readTurns(tx, sql`s.id = ${sessionId}`);
  return turn ?? null;
}

type TurnRow = Omit<TakenTurn, 'turn'> & Readonly<{ turn: unknown }>;

async function readTurns(tx: Tx, where: RawBuilder<unknown>): Promise<TakenTurn[]> {
  const { rows } = await sql<TurnRow>`
    select s.id as "sessionId", s.conversation_asked as asked, s.conversation_turn as turn, r.status,
      (extract(epoch from clock_timestamp() - r.finished_at) * 1000)::float8 as "endedMsAgo",
      s.conversation_head is not null as "isAnswered", s.conversation_readers <> '{}' as "hasReader",
      coalesce(a.kind, 'maintenance') = 'maintenance' as "isIdle"
    from sessions s
    left join runs a on a.id = s.active_run_id
    left join runs r on r.id = (s.conversation_turn ->> 'runId')::uuid
    where ${where} and s.conversation_turn is not null
    order by s.updated_at desc limit ${MAX_CANDIDATES}`.execute(tx);
  return rows.map((row) => ({ ...row, turn: turnSchema.parse(row.turn) }));
}

export type AskedTurn = Readonly<{
  asked: Uint8Array;
  turn: Turn;
  readerId: string;
  /** New expiry of the session, if it has one at all. Null or absent: unchanged. */
  keptUntil?: Date | null;
}>;

/** Stores a turn in the transaction that accepts its question. The caller holds the session's lock. */
export async function storeTurn(
  tx: Tx,
  sessionId: string,
  { asked, turn, readerId, keptUntil = null }: AskedTurn,
): Promise<void> {
  await tx
    .updateTable('sessions')
    .set({
      conversation_asked: Buffer.from(asked),
      conversation_turn: toJson(turn),
      conversation_readers: [readerId],
      conversation_head: null,
      // A later expiry stays, and so does a session without one.
      ...(keptUntil !== null && {
        expires_at: sql<Date>`case when expires_at is not null then greatest(expires_at, ${keptUntil}) end`,
      }),
    })
    .where('id', '=', sessionId)
    .execute();
}

/**
 * Clears the turn if its message was removed or edited, so that the same question counts as new; a newer message has
 * cleared it already. The caller holds the session's lock.
 * @param seqs the numbers of the changed messages in the inbox
 */
export async function forgetTurn(tx: Tx, sessionId: string, seqs: readonly number[]): Promise<void> {
  await tx
    .updateTable('sessions')
    .set({
      conversation_asked: null,
      conversation_turn: null,
      conversation_readers: [],
      conversation_head: null,
    })
    .where('id', '=', sessionId)
    .where('inbox_seq', 'in', seqs)
    .execute();
}

/** Adds a request that reads the answer. The caller holds the session's lock. */
export async function addReader(tx: Tx, sessionId: string, readerId: string): Promise<void> {
  await tx
    .updateTable('sessions')
    .set({ conversation_readers: sql`array_append(conversation_readers, ${readerId})` })
    .where('id', '=', sessionId)
    .execute();
}

export type ToldAnswer = Readonly<{ asked: Uint8Array; turn: TurnPlace; answered: Uint8Array; readerId: string }>;

/** Stores the hash of the conversation with its answer and removes the reader. False: the turn has changed since. */
export async function placeAnswer(
  db: Db,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
  { asked, turn, answered, readerId }: ToldAnswer,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('sessions')
    .set({ conversation_head: Buffer.from(answered), conversation_readers: without(readerId) })
    .where('id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .where('conversation_asked', '=', Buffer.from(asked))
    .where(sql<boolean>`conversation_turn ->> 'runId' = ${turn.runId}`)
    .where(sql<boolean>`(conversation_turn ->> 'afterSeq')::bigint is not distinct from ${turn.afterSeq}::bigint`)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Removes a reader of the answer. Returns whether it was the last one. */
export async function leaveTurn(db: Db, sessionId: string, readerId: string): Promise<boolean> {
  const left = await db
    .updateTable('sessions')
    .set({ conversation_readers: without(readerId) })
    .where('id', '=', sessionId)
    .where(sql<boolean>`${readerId} = any(conversation_readers)`)
    .returning('conversation_readers')
    .executeTakeFirst();
  return left?.conversation_readers.length === 0;
}

const without = (readerId: string) => sql<string[]>`array_remove(conversation_readers, ${readerId})`;

/** The texts of a run's steps so far, including superseded ones. */
export async function readToldTexts(
  db: Db,
  runId: string,
): Promise<readonly Readonly<{ text: string; isVoid: boolean }>[]> {
  const { rows } = await sql<{ text: string; isVoid: boolean }>`
    select string_agg(p.content ->> 'text', '' order by p.idx) as text, m.superseded as "isVoid"
    from messages m join parts p on p.message_id = m.id
    where m.run_id = ${runId} and m.role = 'assistant' and not m.is_summary and p.type = 'text'
    group by m.id order by m.seq, m.attempt`.execute(db);
  return rows;
}

/**
 * Replaces the adaptations that an earlier request made to the session's copy of the agent.
 * @param adapt derives the adapted agent from the one that the session was created with
 */
export async function adaptAgent(
  tx: Tx,
  tenantId: string,
  id: string,
  adapt: (base: unknown) => Promise<unknown>,
): Promise<void> {
  const session = await lockSession(tx, tenantId, id);
  const base = session.agent_base ?? session.agent_snapshot;
  const adapted = await adapt(base);
  await tx
    .updateTable('sessions')
    .set({ agent_snapshot: toJson(adapted), agent_base: toJson(base) })
    .where('id', '=', id)
    // Compared as `jsonb`: the order of keys does not count.
    .where(sql<boolean>`agent_snapshot <> ${toJson(adapted)}::jsonb`)
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
    .set({ message_seq: messages.length })
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
    const kept =
      role === 'user' ? await keepUserFiles(tx, owner, content) : await keepAnswerFiles(tx, session.id, parts);
    rows.push({ id: newId(), seq: index + 1, role, parts: kept });
  }
  for (const piece of piecesOf(rows)) await writeImported(tx, session, piece);
}

type ImportedRow = NewMessage & Readonly<{ id: string; seq: number }>;

/** Characters of messages per statement. A larger message gets its own statement. */
const MAX_STATEMENT_CHARS = 1_000_000;

/** The messages as JSON arrays, one for each statement. */
function* piecesOf(rows: readonly ImportedRow[]): Generator<string> {
  let piece: string[] = [];
  let chars = 0;
  for (const row of rows) {
    const json = toJson(row);
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
    insert into parts (message_id, idx, session_id, tenant_id, type, content, tool_call_id, tool_name, state,
      finished_at)
    select g.id, e.ord - 1, ${session.id}, ${session.tenantId}, e.part ->> 'type', e.part - 'state',
      e.part ->> 'toolCallId', e.part ->> 'toolName', e.part ->> 'state', clock_timestamp()
    from given g, jsonb_array_elements(g.parts) with ordinality as e (part, ord)`.execute(tx);
}

/** The session of a message. Null: the tenant has no such message. */
export async function findSessionOfMessage(db: Db, tenantId: string, messageId: string): Promise<string | null> {
  const row = await db
    .selectFrom('messages')
    .select('session_id')
    .where('id', '=', messageId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return row?.session_id ?? null;
}
