import { type RawBuilder, type Selectable, sql } from 'kysely';
import { z } from 'zod';
import { FINISH_REASONS, type Part, partMarksSchema, storedPartSchema, type ViewPart } from '../domain/message.ts';
import { recordedAnswerSchema } from '../domain/required-action.ts';
import type { Leftover } from '../domain/settlement.ts';
import { MAX_PAGE_CONTENT_BYTES } from '../domain/tunables.ts';
import { usageSchema } from '../domain/usage.ts';
import type { Db } from './database.ts';
import type { Tables } from './tables.ts';

/** A stored part with its state, checked on the way out of the database. */
export function toPart(content: unknown, state: string | null): Part {
  const isWhole = state === null || typeof content !== 'object';
  return storedPartSchema.parse(isWhole ? content : { ...content, state });
}

/** The same with the marks of the context layer. */
export function toViewPart(content: unknown, state: string | null, marks: unknown): ViewPart {
  const part = toPart(content, state);
  return marks === null ? part : { ...part, marks: partMarksSchema.parse(marks) };
}

async function readParts(db: Db, messageIds: readonly string[]): Promise<Map<string, Part[]>> {
  const rows = await db
    .selectFrom('parts')
    .select(['message_id', 'content', 'state'])
    .where('message_id', 'in', messageIds.length === 0 ? [''] : messageIds)
    .orderBy('message_id')
    .orderBy('idx')
    .execute();
  const parts = new Map<string, Part[]>();
  for (const [id, group] of Map.groupBy(rows, (row) => row.message_id)) {
    parts.set(
      id,
      group.map((row) => toPart(row.content, row.state)),
    );
  }
  return parts;
}

/** What an earlier attempt left of a message. */
export async function readLeftover(db: Db, messageId: string): Promise<Leftover> {
  const message = await db
    .selectFrom('messages')
    .select(['finish_reason', 'usage'])
    .where('id', '=', messageId)
    .executeTakeFirstOrThrow();
  const parts = await readParts(db, [messageId]);
  const asked = await db
    .selectFrom('parts')
    .select(['idx', 'answer'])
    .where('message_id', '=', messageId)
    .where('asked', 'is not', null)
    .execute();
  return {
    messageId,
    finishReason: z.enum(FINISH_REASONS).nullable().parse(message.finish_reason),
    usage: usageSchema.nullable().parse(message.usage),
    parts: parts.get(messageId) ?? [],
    answers: new Map(
      asked.flatMap(({ idx, answer }) => (answer === null ? [] : [[idx, recordedAnswerSchema.parse(answer).given]])),
    ),
    isPaid: asked.length > 0,
  };
}

type MessageRow = Selectable<Tables['messages']>;

export type TranscriptMessage = Readonly<{
  id: string;
  seq: number;
  role: 'user' | 'assistant';
  runId: string | null;
  stepNo: number | null;
  attempt: number | null;
  model: string | null;
  finishReason: string | null;
  usage: unknown;
  error: unknown;
  createdAt: Date;
  parts: readonly Part[];
}>;

/**
 * The transcript after `afterSeq`, in order; what was superseded by a later attempt is left out. At most `limit` messages,
 * fewer where their parts are large, but at least one where there is any.
 */
export function listMessages(
  db: Db,
  tenantId: string,
  sessionId: string,
  afterSeq: number,
  limit: number,
): Promise<TranscriptMessage[]> {
  return readPage(
    db,
    sql`session_id = ${sessionId} and tenant_id = ${tenantId} and seq > ${afterSeq}`,
    sql`seq`,
    limit,
  );
}

/** The newest messages of the transcript, in order: as many as `listMessages` gives. */
export function listNewestMessages(
  db: Db,
  tenantId: string,
  sessionId: string,
  limit: number,
): Promise<TranscriptMessage[]> {
  return readPage(db, sql`session_id = ${sessionId} and tenant_id = ${tenantId}`, sql`seq desc`, limit);
}

/** Whether the transcript goes on after a message. */
export async function hasMessagesAfter(db: Db, tenantId: string, sessionId: string, seq: number): Promise<boolean> {
  const next = await db
    .selectFrom('messages')
    .select('seq')
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .where('seq', '>', seq)
    .where('superseded', '=', false)
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst();
  return next !== undefined;
}

async function readPage(
  db: Db,
  where: RawBuilder<unknown>,
  order: RawBuilder<unknown>,
  limit: number,
): Promise<TranscriptMessage[]> {
  const { rows } = await sql<MessageRow>`
    select id, seq, role, run_id, step_no, attempt, model, finish_reason, usage, error, created_at from (
      select *, row_number() over in_order as no, sum(bytes) over in_order as total from (
        select *, (select coalesce(sum(content_bytes), 0) from parts where message_id = messages.id) as bytes
        from messages where ${where} and not superseded order by ${order} limit ${limit}
      ) as next window in_order as (order by ${order} rows unbounded preceding)
    ) as page where no = 1 or total <= ${MAX_PAGE_CONTENT_BYTES} order by seq`.execute(db);
  const parts =
    rows.length === 0
      ? new Map<string, Part[]>()
      : await readParts(
          db,
          rows.map((row) => row.id),
        );
  return rows.map((row) => ({
    id: row.id,
    seq: row.seq,
    role: row.role,
    runId: row.run_id,
    stepNo: row.step_no,
    attempt: row.attempt,
    model: row.model,
    finishReason: row.finish_reason,
    usage: row.usage,
    error: row.error,
    createdAt: row.created_at,
    parts: parts.get(row.id) ?? [],
  }));
}

/** The parts of one message; none where the tenant has no such message. */
export async function readMessageParts(db: Db, tenantId: string, messageId: string): Promise<Part[]> {
  const rows = await db
    .selectFrom('parts')
    .select(['content', 'state'])
    .where('message_id', '=', messageId)
    .where('tenant_id', '=', tenantId)
    .orderBy('idx')
    .execute();
  return rows.map(({ content, state }) => toPart(content, state));
}

/** One part by its place, or null when there is no such part. */
export async function readPart(
  db: Db,
  tenantId: string,
  { messageId, index }: Readonly<{ messageId: string; index: number }>,
): Promise<Part | null> {
  const row = await db
    .selectFrom('parts')
    .select(['content', 'state'])
    .where('message_id', '=', messageId)
    .where('idx', '=', index)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return row === undefined ? null : toPart(row.content, row.state);
}
