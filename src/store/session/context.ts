import { sql } from 'kysely';
import { z } from 'zod';
import { type ContextState, contextStateSchema } from '../../domain/context/meter/state.ts';
import { BatonError, errorRecordSchema } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { ViewMessage } from '../../domain/transcript/message.ts';
import { usageSchema } from '../../domain/usage.ts';
import type { Db } from '../db/database.ts';
import { readRestOfView, viewSchema } from '../transcript/views.ts';
import { sessionNotFound } from './sessions.ts';

/** The input for measuring a session's next request. */
export type SessionContext = Readonly<{
  view: readonly ViewMessage[];
  contextState: ContextState;
  agentSnapshot: unknown;
  /** Null: no compaction is running. */
  compactingSince: Date | null;
  /** `sessions.view_version`. It grows when existing messages of the view change, not when messages are added. */
  version: number;
}>;

/** Attempts to read a view of several pages while compactions or prunes change it. */
const MAX_TRIES = 3;

/**
 * Reads a session's view and its context state. A view of several pages may include messages added while it was read.
 * @throws BatonError `not_found`; `session_busy` if the view changed during each attempt
 */
export async function readContext(db: Db, tenantId: string, sessionId: string): Promise<SessionContext> {
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const { view, nextAfter, ...context } = await readFirstPage(db, tenantId, sessionId);
    if (nextAfter === null) return { ...context, view };
    const rest = await readRestOfView(db, sessionId, nextAfter);
    if ((await readViewVersion(db, tenantId, sessionId)) === context.version)
      return { ...context, view: [...view, ...rest] };
  }
  throw new BatonError('session_busy', `session ${formatId('session', sessionId)} is being compacted: try again`);
}

type FirstPage = SessionContext & Readonly<{ nextAfter: number | null }>;

type FirstPageRow = Readonly<{
  view: unknown;
  nextAfter: number | null;
  version: number;
  state: unknown;
  snapshot: unknown;
  compacting: Date | null;
}>;

async function readFirstPage(db: Db, tenantId: string, sessionId: string): Promise<FirstPage> {
  const { rows } = await sql<FirstPageRow>`
    select page.view, page.next_after as "nextAfter", view_version as version, context_state as state,
      agent_snapshot as snapshot, compacting_since as compacting
    from sessions, baton_view(sessions.id) as page where id = ${sessionId} and tenant_id = ${tenantId}`.execute(db);
  const [row] = rows;
  if (row === undefined) throw sessionNotFound(sessionId);
  return {
    view: viewSchema.parse(row.view),
    nextAfter: row.nextAfter,
    version: row.version,
    contextState: contextStateSchema.parse(row.state),
    agentSnapshot: row.snapshot,
    compactingSince: row.compacting,
  };
}

async function readViewVersion(db: Db, tenantId: string, sessionId: string): Promise<number | null> {
  const row = await db
    .selectFrom('sessions')
    .select('view_version')
    .where('id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return row?.view_version ?? null;
}

/** The most messages of a view that its meter reads: a meter must not hold up the service. */
const METERED_MESSAGES = 2_000;

type MeteredContext = Omit<SessionContext, 'version'> &
  Readonly<{
    /** False: the view is longer, and this is its newest part. */
    isWhole: boolean;
  }>;

/**
 * Reads what the meter of a session needs: the view, or its newest messages if it is very long.
 * @throws BatonError `not_found`
 */
export async function readMeteredContext(db: Db, tenantId: string, sessionId: string): Promise<MeteredContext> {
  const { rows } = await sql<Omit<FirstPageRow, 'nextAfter' | 'version'> & Readonly<{ isWhole: boolean }>>`
    select page.view, cut.seq is null as "isWhole", context_state as state, agent_snapshot as snapshot,
      compacting_since as compacting
    from sessions
    left join lateral (
      select m.seq from messages m
      where m.session_id = sessions.id and m.seq >= sessions.view_start_seq and not m.is_summary and not m.superseded
        and (m.role = 'user' or m.finish_reason is not null)
      order by m.seq desc offset ${METERED_MESSAGES} limit 1
    ) as cut on true
    cross join lateral baton_view(sessions.id, coalesce(cut.seq, 0)) as page
    where sessions.id = ${sessionId} and sessions.tenant_id = ${tenantId}`.execute(db);
  const [row] = rows;
  if (row === undefined) throw sessionNotFound(sessionId);
  return {
    view: viewSchema.parse(row.view),
    isWhole: row.isWhole,
    contextState: contextStateSchema.parse(row.state),
    agentSnapshot: row.snapshot,
    compactingSince: row.compacting,
  };
}

const compactionRow = z.object({
  round: z.number(),
  strategy: z.string(),
  reason: z.string(),
  state: z.string(),
  tokensBefore: z.number(),
  tokensAfter: z.number().nullable(),
  /** The first and the last message that were summarized. */
  fromSeq: z.number(),
  uptoSeq: z.number(),
  /** Null: the compaction has no summary. */
  summaryMessageId: z.uuid().nullable(),
  attempts: z.number(),
  /** Null: the compaction is running. */
  usage: usageSchema.nullable(),
  costUsd: z.number().nullable(),
  error: errorRecordSchema.nullable(),
  startedAt: z.date(),
  finishedAt: z.date().nullable(),
});
export type CompactionRecord = z.infer<typeof compactionRow>;

/** A session's latest compactions, newest first. */
export async function listCompactions(
  db: Db,
  tenantId: string,
  sessionId: string,
  limit: number,
): Promise<CompactionRecord[]> {
  const { rows } = await sql`
    select round, strategy, reason, state, tokens_before as "tokensBefore", tokens_after as "tokensAfter", attempts,
      from_seq as "fromSeq", upto_seq as "uptoSeq", usage, cost_usd as "costUsd", error,
      (select id from messages m where m.session_id = compactions.session_id and m.seq = summary_message_seq)
        as "summaryMessageId", started_at as "startedAt", finished_at as "finishedAt"
    from compactions
    where session_id = ${sessionId} and tenant_id = ${tenantId} order by round desc limit ${limit}`.execute(db);
  return z.array(compactionRow).parse(rows);
}

const compactionSums = z.strictObject({
  completed: z.coerce.number(),
  failed: z.coerce.number(),
  costUsd: z.coerce.number().nullable(),
  failedCostUsd: z.coerce.number().nullable(),
});

/** The number of a session's ended compactions, and what they cost in US dollars; null: some price is unknown. */
export async function readCompactionSums(
  db: Db,
  tenantId: string,
  sessionId: string,
): Promise<z.infer<typeof compactionSums>> {
  const { rows } = await sql`
    select count(*) filter (where state = 'completed') as completed,
      count(*) filter (where state in ('failed', 'rejected')) as failed,
      case when bool_and(cost_usd is not null) is not false then coalesce(sum(cost_usd), 0) end as "costUsd",
      case when bool_and(cost_usd is not null) filter (where state <> 'completed') is not false
        then coalesce(sum(cost_usd) filter (where state <> 'completed'), 0) end as "failedCostUsd"
    from compactions
    where session_id = ${sessionId} and tenant_id = ${tenantId} and state <> 'running'`.execute(db);
  return compactionSums.parse(rows[0]);
}
