import { sql } from 'kysely';
import { z } from 'zod';
import { BatonError, errorRecordSchema } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { RUN_STATUSES } from '../../domain/run/run.ts';
import type { StepLogInput } from '../../domain/run/step-log.ts';
import { FINISH_REASONS } from '../../domain/transcript/message.ts';
import { TOOL_CALL_STATES } from '../../domain/transcript/tool-call.ts';
import { usageSchema } from '../../domain/usage.ts';
import type { Db } from '../db/database.ts';

/** Attempts of all steps of a page. Retries and recoveries of a step are bounded far below. */
const MOST_ATTEMPTS = 10_000;
/** Compactions and prunes of one run. */
const MOST_MAINTENANCE = 1_000;
/** Events of a page besides those of its calls. */
const MOST_EVENTS = 50_000;

const messageSchema = z.object({
  id: z.string(),
  seq: z.int(),
  step: z.int(),
  attempt: z.int(),
  startedAt: z.date(),
  finishedAt: z.date().nullable(),
  superseded: z.boolean(),
  model: z.string().nullable(),
  finishReason: z.enum(FINISH_REASONS).nullable(),
  usage: usageSchema.nullable(),
  error: errorRecordSchema.nullable(),
  eventSeq: z.int().nullable(),
});
type MessageRow = z.infer<typeof messageSchema>;

const callSchema = z.object({
  messageId: z.string(),
  index: z.int(),
  toolName: z.string(),
  state: z.enum(TOOL_CALL_STATES),
  startedAt: z.date().nullable(),
  finishedAt: z.date().nullable(),
  truncated: z.boolean(),
});

const eventSchema = z.object({ type: z.string(), createdAt: z.date(), data: z.record(z.string(), z.unknown()) });

const compactionSchema = z.object({
  round: z.int(),
  strategy: z.string(),
  reason: z.string(),
  state: z.string(),
  tokensBefore: z.int(),
  tokensAfter: z.int().nullable(),
  costUsd: z.number().nullable(),
  error: errorRecordSchema.nullable(),
  startedAt: z.date(),
  finishedAt: z.date().nullable(),
});
const adaptedSchema = z.object({ round: z.int(), text: z.string() });

export type StepLogPage = Readonly<{
  sessionId: string;
  /** The input of the fold. Its first messages may be of the step before the page, for comparison. */
  input: Omit<StepLogInput, 'publicIdOf'>;
  /** The time from which, and before which, rows belong to the page. Null: there is no page before, or after. */
  from: Date | null;
  before: Date | null;
  /** The last step of the page. Null: it is the last page. */
  next: number | null;
}>;

/** Reads the log of the steps after this number, with the compactions and prunes of the run. @throws BatonError `not_found` */
export async function readStepLog(
  db: Db,
  { tenantId, runId, after, limit }: Readonly<{ tenantId: string; runId: string; after: number; limit: number }>,
): Promise<StepLogPage> {
  const run = await db
    .selectFrom('runs')
    .select(['session_id as sessionId', 'status'])
    .where('id', '=', runId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  if (run === undefined) throw new BatonError('not_found', `run ${formatId('run', runId)} does not exist`);
  const { sessionId } = run;
  // One step more than a page at each end: the one before for comparison, the one after to see whether there is one.
  const all = await readMessages(db, runId, after, after + limit + 1);
  const messages = all.filter(({ step }) => step <= after + limit);
  const following = all.find(({ step }) => step > after + limit);
  const [calls, events, prunes, compactions] = await Promise.all([
    readCalls(
      db,
      sessionId,
      messages.map(({ id }) => id),
    ),
    readStepEvents(db, { sessionId, runId, messages, upto: following?.eventSeq ?? null }),
    readPrunes(db, runId),
    readCompactions(db, runId),
  ]);
  return {
    sessionId,
    input: {
      runStatus: z.enum(RUN_STATUSES).parse(run.status),
      messages,
      calls,
      events: [...events, ...prunes],
      compactions,
    },
    from: after === 0 ? null : (messages.find(({ step }) => step > after)?.startedAt ?? new Date(8.64e15)),
    before: following?.startedAt ?? null,
    next: following === undefined ? null : after + limit,
  };
}

async function readMessages(db: Db, runId: string, from: number, upto: number): Promise<MessageRow[]> {
  const rows = await db
    .selectFrom('messages')
    .select([
      'id',
      'seq',
      'step_no as step',
      'attempt',
      'created_at as startedAt',
      'finished_at as finishedAt',
      'superseded',
      'model',
      'finish_reason as finishReason',
      'usage',
      'error',
      'event_seq as eventSeq',
    ])
    .where('run_id', '=', runId)
    .where('step_no', '>=', from)
    .where('step_no', '<=', upto)
    .where('role', '=', 'assistant')
    .orderBy('step_no')
    .orderBy('seq')
    .limit(MOST_ATTEMPTS)
    .execute();
  return z.array(messageSchema).parse(rows);
}

async function readCalls(db: Db, sessionId: string, messageIds: readonly string[]) {
  if (messageIds.length === 0) return [];
  const { rows } = await sql`
    select message_id as "messageId", idx as index, content ->> 'toolName' as "toolName", state,
      started_at as "startedAt", finished_at as "finishedAt", truncated
    from parts where session_id = ${sessionId} and message_id = any(${messageIds}::uuid[]) and type = 'tool'`.execute(
    db,
  );
  return z.array(callSchema).parse(rows);
}

/** Of the run, and what changed the agent of its session meanwhile. */
const STEP_EVENTS = ['step:started', 'llm:response', 'step:completed', 'step:retrying', 'step:reset'];
const CHANGES = ['llm:switched', 'tools:pinned'];

/** The events between the first message of the page and `upto`, or else the next answer of the session. */
async function readStepEvents(
  db: Db,
  {
    sessionId,
    runId,
    messages,
    upto,
  }: Readonly<{ sessionId: string; runId: string; messages: readonly MessageRow[]; upto: number | null }>,
) {
  const first = messages.find(({ eventSeq }) => eventSeq !== null);
  const last = messages.at(-1);
  if (first === undefined || last === undefined) return [];
  const { rows } = await sql`
    select type, created_at as "createdAt",
      case when type = 'llm:response' then data - array['content', 'reasoning'] || '{"content":""}' else data end as data
    from events where session_id = ${sessionId} and seq >= ${first.eventSeq}
      and seq < coalesce(${upto}::bigint, (select event_seq from messages
        where session_id = ${sessionId} and seq > ${last.seq} and event_seq is not null order by seq limit 1), 9223372036854775807)
      and (type = any(${STEP_EVENTS}::text[]) and run_id = ${runId} or type = any(${CHANGES}::text[]))
    order by seq limit ${MOST_EVENTS}`.execute(db);
  return z.array(eventSchema).parse(rows);
}

async function readPrunes(db: Db, runId: string) {
  const { rows } = await sql`
    select type, created_at as "createdAt", data from events
    where run_id = ${runId} and type = 'prune:complete' order by seq limit ${MOST_MAINTENANCE}`.execute(db);
  return z.array(eventSchema).parse(rows);
}

async function readCompactions(db: Db, runId: string) {
  const rows = await db
    .selectFrom('compactions')
    .select([
      'round',
      'strategy',
      'reason',
      'state',
      'tokens_before as tokensBefore',
      'tokens_after as tokensAfter',
      'cost_usd as costUsd',
      'error',
      'started_at as startedAt',
      'finished_at as finishedAt',
    ])
    .where('run_id', '=', runId)
    .orderBy('round')
    .limit(MOST_MAINTENANCE)
    .execute();
  const adapted = await readAdapted(db, runId);
  return z
    .array(compactionSchema)
    .parse(rows)
    .map((row) => ({ ...row, adapted: adapted.get(row.round) ?? null }));
}

/** How the requests for the summary of each round were changed, in whole sentences. */
async function readAdapted(db: Db, runId: string): Promise<ReadonlyMap<number, string>> {
  const { rows } = await sql`
    select (data ->> 'round')::int as round, string_agg(data ->> 'text', ' ' order by seq) as text from events
    where run_id = ${runId} and type = 'llm:adapted' and data ? 'round'
    group by 1 limit ${MOST_MAINTENANCE}`.execute(db);
  return new Map(
    z
      .array(adaptedSchema)
      .parse(rows)
      .map(({ round, text }) => [round, text]),
  );
}
