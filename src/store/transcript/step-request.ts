import { sql } from 'kysely';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { type OutputFormat, outputStateSchema } from '../../domain/run/output-format.ts';
import { LIMIT_REASONS } from '../../domain/run/run.ts';
import type { ViewMessage } from '../../domain/transcript/message.ts';
import type { Db } from '../db/database.ts';
import { viewSchema } from './views.ts';

/** Messages of a view. A larger one has no request: no model has such a window. */
const MOST_MESSAGES = 20_000;

/** The record of a request that the worker wrote when the answer came. */
const requestSchema = z.object({
  sha256: z.string(),
  toolsSha256: z.string(),
  finalAnswerFor: z.enum(LIMIT_REASONS).optional(),
  /** It asked for a result: how far the run was with it. */
  outputState: outputStateSchema.optional(),
});
export type KeptRequest = Readonly<z.infer<typeof requestSchema>>;

const stepSchema = z.object({
  messageId: z.string(),
  sessionId: z.string(),
  seq: z.int(),
  attempt: z.int(),
  model: z.string().nullable(),
  viewStartSeq: z.int().nullable(),
  summarySeq: z.int().nullable(),
  request: requestSchema.nullable(),
  startedAt: z.string(),
  agentSnapshot: z.unknown(),
  outputFormat: z.custom<OutputFormat>().nullable(),
});

const hiddenSchema = z.object({
  messageId: z.string(),
  seq: z.int(),
  index: z.int(),
  toolName: z.string().nullable(),
  kind: z.enum(['pruned', 'cut', 'media']),
  tokens: z.int().nullable(),
});
export type HiddenPart = Readonly<z.infer<typeof hiddenSchema>>;

export type StepRequest = Omit<z.infer<typeof stepSchema>, 'viewStartSeq' | 'summarySeq' | 'startedAt'> &
  Readonly<{ view: readonly ViewMessage[]; hidden: readonly HiddenPart[] }>;

/** `attempt`: null for the newest. */
type StepKey = Readonly<{ tenantId: string; runId: string; step: number; attempt: number | null }>;

/**
 * The view of a step when it began, with the agent that its session had. `hidden`: the parts that the view does not show
 * whole.
 * @throws BatonError `not_found`
 */
export async function readStepRequest(db: Db, { tenantId, runId, step, attempt }: StepKey): Promise<StepRequest> {
  const { viewStartSeq, summarySeq, startedAt, ...found } = await findStep(db, { tenantId, runId, step, attempt });
  if (viewStartSeq === null) throw notFound(runId, step);
  const { sessionId, seq } = found;
  const shown = sql`messages.session_id = ${sessionId} and (messages.seq = ${summarySeq} or (
    messages.seq >= ${viewStartSeq} and messages.seq < ${seq} and not is_summary and not superseded
      and (reverted_no is null or ${startedAt}::timestamptz <= (
        select created_at from session_reverts where session_id = ${sessionId} and no = messages.reverted_no))
      and (role = 'user' or finish_reason is not null)))`;
  const place = { shown, startedAt };
  const [view, hidden] = await Promise.all([readView(db, place), readHidden(db, place)]);
  return { ...found, view, hidden };
}

/** The records of a session's requests, by the ids of their answers. */
export async function readKeptRequests(db: Db, sessionId: string): Promise<ReadonlyMap<string, KeptRequest>> {
  const { rows } = await sql<{ id: string; request: unknown }>`
    select id, request from messages where session_id = ${sessionId} and request is not null
    order by seq limit ${MOST_MESSAGES}`.execute(db);
  return new Map(rows.map(({ id, request }) => [id, requestSchema.parse(request)]));
}

const notFound = (runId: string, step: number): BatonError =>
  new BatonError('not_found', `step ${step} of run ${formatId('run', runId)} does not exist`);

async function findStep(db: Db, { tenantId, runId, step, attempt }: StepKey) {
  const { rows } = await sql`
    select messages.id as "messageId", messages.session_id as "sessionId", messages.seq, messages.attempt, messages.model,
      messages.view_start_seq as "viewStartSeq", messages.summary_seq as "summarySeq", messages.request,
      messages.created_at::text as "startedAt",
      coalesce((select snapshot from session_agents
        where session_id = messages.session_id and upto_seq >= messages.seq order by upto_seq limit 1),
        sessions.agent_snapshot) as "agentSnapshot", runs.output_format as "outputFormat"
    from messages join sessions on sessions.id = messages.session_id join runs on runs.id = messages.run_id
    where messages.run_id = ${runId} and messages.step_no = ${step} and messages.role = 'assistant'
      and messages.tenant_id = ${tenantId} ${attempt === null ? sql`` : sql`and messages.attempt = ${attempt}`}
    order by messages.seq desc limit 1`.execute(db);
  if (rows[0] === undefined) throw notFound(runId, step);
  return stepSchema.parse(rows[0]);
}

type Place = Readonly<{ shown: ReturnType<typeof sql>; startedAt: string }>;

/** The limit of an output at that time: a later one keeps those before it, with the time until which each held. */
const limitAt = (startedAt: string) => sql`case when jsonb_path_exists(earlier_view_limits, '$[*]')
  then coalesce((select earlier -> 'chars' from jsonb_array_elements(earlier_view_limits) with ordinality as e (earlier, no)
    where (earlier ->> 'until')::timestamptz > ${startedAt}::timestamptz order by no limit 1), to_jsonb(view_limit))
  else to_jsonb(view_limit) end`;

/** Marks that were set later do not count. */
async function readView(db: Db, { shown, startedAt }: Place): Promise<ViewMessage[]> {
  const at = sql`${startedAt}::timestamptz`;
  const { rows } = await sql`
    select messages.id, messages.seq, messages.role, messages.model, shown.parts from messages cross join lateral (
      select coalesce(json_agg(json_build_array(
        case when compacted_at < ${at} then content - 'output' else content end, state,
        case when compacted_at < ${at} or media_stripped_at < ${at} or jsonb_typeof(${limitAt(startedAt)}) = 'number' then
          jsonb_strip_nulls(jsonb_build_object('pruned', case when compacted_at < ${at} then true end,
            'viewLimitChars', ${limitAt(startedAt)}, 'mediaStripped', case when media_stripped_at < ${at} then true end))
        end) order by idx), '[]') as parts
      from parts where session_id = messages.session_id and message_id = messages.id
    ) as shown
    where ${shown} order by is_summary desc, messages.seq limit ${MOST_MESSAGES}`.execute(db);
  return viewSchema.parse(rows);
}

async function readHidden(db: Db, { shown, startedAt }: Place): Promise<HiddenPart[]> {
  const at = sql`${startedAt}::timestamptz`;
  const { rows } = await sql`
    select messages.id as "messageId", messages.seq, idx as index, content ->> 'toolName' as "toolName",
      original_tokens as tokens,
      case when compacted_at < ${at} then 'pruned' when media_stripped_at < ${at} then 'media' else 'cut' end as kind
    from messages cross join lateral (
      select * from parts where session_id = messages.session_id and message_id = messages.id offset 0) as parts
    where ${shown} and (compacted_at < ${at} or media_stripped_at < ${at} or truncated
      or jsonb_typeof(${limitAt(startedAt)}) = 'number')
    order by messages.seq, idx limit ${MOST_MESSAGES}`.execute(db);
  return z.array(hiddenSchema).parse(rows);
}
