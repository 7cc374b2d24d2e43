import { type RawBuilder, type Selectable, sql } from 'kysely';
import { z } from 'zod';
import type { InterruptedStep } from '../../domain/run/settlement.ts';
import { callQuestionSchema } from '../../domain/transcript/call-question.ts';
import {
  FINISH_REASONS,
  jsonSchema,
  type Part,
  partMarksSchema,
  storedPartSchema,
  type ViewPart,
} from '../../domain/transcript/message.ts';
import type { PartHistory, TranscriptPart } from '../../domain/transcript/part-history.ts';
import { recordedAnswerSchema } from '../../domain/transcript/required-action.ts';
import { MAX_PAGE_CONTENT_BYTES } from '../../domain/tunables.ts';
import { usageSchema } from '../../domain/usage.ts';
import type { Db } from '../db/database.ts';
import type { Tables } from '../db/tables.ts';
import type { MessageKey } from './message-key.ts';

export function toPart(content: unknown, state: string | null): Part {
  const isWhole = state === null || typeof content !== 'object';
  return storedPartSchema.parse(isWhole ? content : { ...content, state });
}

export function toViewPart(content: unknown, state: string | null, marks: unknown): ViewPart {
  const part = toPart(content, state);
  return marks === null ? part : { ...part, marks: partMarksSchema.parse(marks) };
}

type PartRow = Pick<
  Selectable<Tables['parts']>,
  'content' | 'state' | 'compacted_at' | 'media_stripped_at' | 'view_limit' | 'original_tokens' | 'truncated'
>;

function toTranscriptPart(row: PartRow): TranscriptPart {
  const part = toPart(row.content, row.state);
  const history: PartHistory = {
    ...(row.compacted_at !== null && { compactedAt: row.compacted_at }),
    ...(row.media_stripped_at !== null && { mediaStrippedAt: row.media_stripped_at }),
    ...(row.view_limit !== null && { viewLimitChars: row.view_limit }),
    ...(row.original_tokens !== null && { originalTokens: row.original_tokens }),
    ...(row.truncated && { truncated: true as const }),
  };
  return Object.keys(history).length === 0 ? part : { ...part, history };
}

async function readParts(
  db: Db,
  sessionId: string,
  messageIds: readonly string[],
): Promise<Map<string, TranscriptPart[]>> {
  if (messageIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('parts')
    .select(['message_id', 'content', 'state', 'compacted_at', 'media_stripped_at', 'view_limit'])
    .select(['original_tokens', 'truncated'])
    .where('session_id', '=', sessionId)
    .where('message_id', 'in', messageIds)
    .orderBy('message_id')
    .orderBy('idx')
    .execute();
  const groups = Map.groupBy(rows, (row) => row.message_id);
  return new Map(groups.entries().map(([id, group]) => [id, group.map(toTranscriptPart)]));
}

export async function readInterruptedStep(db: Db, { sessionId, messageId }: MessageKey): Promise<InterruptedStep> {
  const message = await db
    .selectFrom('messages')
    .select(['finish_reason', 'usage'])
    .where('id', '=', messageId)
    .where('session_id', '=', sessionId)
    .executeTakeFirstOrThrow();
  const parts = await readParts(db, sessionId, [messageId]);
  const known = await db
    .selectFrom('parts')
    .select(['idx', 'answer', 'outside_work', 'question', 'required_action'])
    .where('session_id', '=', sessionId)
    .where('message_id', '=', messageId)
    .where(({ eb, or }) =>
      or([eb('required_action', 'is not', null), eb('outside_work', 'is not', null), eb('question', 'is not', null)]),
    )
    .execute();
  return {
    messageId,
    finishReason: z.enum(FINISH_REASONS).nullable().parse(message.finish_reason),
    usage: usageSchema.nullable().parse(message.usage),
    parts: parts.get(messageId) ?? [],
    answers: new Map(
      known.flatMap(({ idx, answer }) => (answer === null ? [] : [[idx, recordedAnswerSchema.parse(answer).given]])),
    ),
    outsideWork: new Map(
      known.flatMap(({ idx, outside_work: work }) => (work === null ? [] : [[idx, jsonSchema.parse(work)]])),
    ),
    questions: new Map(
      known.flatMap(({ idx, question }) => (question === null ? [] : [[idx, callQuestionSchema.parse(question)]])),
    ),
    isPaid: known.some((part) => part.required_action !== null),
  };
}

type MessageRow = Selectable<Tables['messages']>;

type SummarizedRange = Readonly<{ round: number; fromSeq: number; uptoSeq: number }>;

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
  /** Set for a summary: the messages that it replaces in the view, and the round of compaction that made it. */
  summaryOf: SummarizedRange | null;
  createdAt: Date;
  parts: readonly TranscriptPart[];
}>;

/**
 * The transcript after `afterSeq`, without superseded and reverted messages. At most `limit`; fewer if they are large, but at least
 * one if any exists.
 * @param runId only the messages of this run
 */
export function listMessages(
  db: Db,
  tenantId: string,
  sessionId: string,
  { afterSeq, limit, runId }: Readonly<{ afterSeq: number; limit: number; runId?: string | undefined }>,
): Promise<TranscriptMessage[]> {
  const where = sql`${transcriptOf(tenantId, sessionId, runId)} and seq > ${afterSeq}`;
  return readPage(db, sessionId, { where, order: sql`seq`, limit });
}

function transcriptOf(tenantId: string, sessionId: string, runId?: string): RawBuilder<boolean> {
  const whole = sql<boolean>`session_id = ${sessionId} and tenant_id = ${tenantId}`;
  return runId === undefined ? whole : sql<boolean>`${whole} and run_id = ${runId}`;
}

/** The newest messages of the transcript, or those before a number, in order, with the limits of `listMessages`. */
export function listNewestMessages(
  db: Db,
  tenantId: string,
  sessionId: string,
  {
    limit,
    beforeSeq = null,
    runId,
  }: Readonly<{ limit: number; beforeSeq?: number | null; runId?: string | undefined }>,
): Promise<TranscriptMessage[]> {
  const mine = transcriptOf(tenantId, sessionId, runId);
  const where = beforeSeq === null ? mine : sql`${mine} and seq < ${beforeSeq}`;
  return readPage(db, sessionId, { where, order: sql`seq desc`, limit });
}

type InTranscript = Readonly<{
  tenantId: string;
  sessionId: string;
  seq: number;
  runId?: string | undefined;
}>;

export const hasMessagesAfter = (db: Db, place: InTranscript): Promise<boolean> =>
  hasMessages(db, place, sql`seq > ${place.seq}`);

export const hasMessagesBefore = (db: Db, place: InTranscript): Promise<boolean> =>
  hasMessages(db, place, sql`seq < ${place.seq}`);

async function hasMessages(db: Db, place: InTranscript, where: RawBuilder<boolean>): Promise<boolean> {
  const next = await db
    .selectFrom('messages')
    .select('seq')
    .where(transcriptOf(place.tenantId, place.sessionId, place.runId))
    .where(where)
    .where('superseded', '=', false)
    .where('reverted_no', 'is', null)
    .limit(1)
    .executeTakeFirst();
  return next !== undefined;
}

async function readPage(
  db: Db,
  sessionId: string,
  { where, order, limit }: Readonly<{ where: RawBuilder<unknown>; order: RawBuilder<unknown>; limit: number }>,
): Promise<TranscriptMessage[]> {
  const { rows } = await sql<MessageRow & Readonly<{ summaryOf: SummarizedRange | null }>>`
    select id, seq, role, run_id, step_no, attempt, model, finish_reason, usage, error, created_at,
      case when is_summary then (
        select json_build_object('round', round, 'fromSeq', from_seq, 'uptoSeq', upto_seq) from compactions
        where session_id = page.session_id and summary_message_seq = page.seq limit 1) end as "summaryOf" from (
      select *, row_number() over in_order as no, sum(bytes) over in_order as total from (
        select *, (select coalesce(sum(content_bytes), 0) from parts
          where session_id = ${sessionId} and message_id = messages.id) as bytes
        from messages where ${where} and not superseded and reverted_no is null order by ${order} limit ${limit}
      ) as next window in_order as (order by ${order} rows unbounded preceding)
    ) as page where no = 1 or total <= ${MAX_PAGE_CONTENT_BYTES} order by seq`.execute(db);
  const ids = rows.map((row) => row.id);
  const parts = await readParts(db, sessionId, ids);
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
    summaryOf: row.summaryOf,
    createdAt: row.created_at,
    parts: parts.get(row.id) ?? [],
  }));
}

/** Empty: the tenant has no such message. */
export async function readMessageParts(
  db: Db,
  tenantId: string,
  { sessionId, messageId }: MessageKey,
): Promise<Part[]> {
  const rows = await db
    .selectFrom('parts')
    .select(['content', 'state'])
    .where('session_id', '=', sessionId)
    .where('message_id', '=', messageId)
    .where('tenant_id', '=', tenantId)
    .orderBy('idx')
    .execute();
  return rows.map(({ content, state }) => toPart(content, state));
}

/** Null: there is no such part. */
export async function readPart(
  db: Db,
  tenantId: string,
  { sessionId, messageId, index }: MessageKey & Readonly<{ index: number }>,
): Promise<Part | null> {
  const row = await db
    .selectFrom('parts')
    .select(['content', 'state'])
    .where('session_id', '=', sessionId)
    .where('message_id', '=', messageId)
    .where('idx', '=', index)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return row === undefined ? null : toPart(row.content, row.state);
}
