import { sql } from 'kysely';
import { z } from 'zod';
import { type ContextState, contextStateSchema } from '../domain/context/meter/state.ts';
import { BatonError, errorRecordSchema } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { JobPayload } from '../domain/run/job.ts';
import type { PendingKind } from '../domain/run/run.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import { usageSchema } from '../domain/usage.ts';
import { type Db, inTransaction } from './database.ts';
import { lockSession, sessionNotFound } from './sessions.ts';
import { startRun } from './start-run.ts';
import { readRestOfView, viewSchema } from './views.ts';

/** What a session's next request would be measured by. */
export type SessionContext = Readonly<{
  view: readonly ViewMessage[];
  contextState: ContextState;
  agentSnapshot: unknown;
  /** Since when a compaction is under way. */
  compactingSince: Date | null;
  /** Of the view: what was in it before changes only with this. */
  version: number;
}>;

/** Tries at a view of several pages that is changed by a compaction or a prune meanwhile. */
const MAX_TRIES = 3;

/**
 * Reads a session's view and what is known of its context: of one moment where the view is one page, else as it was
 * between its first and its last page, with the marks and the cut of the first.
 * @throws BatonError `not_found`; `session_busy` where the view was changed each time
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

const compactionRow = z.object({
  round: z.number(),
  strategy: z.string(),
  reason: z.string(),
  state: z.string(),
  tokensBefore: z.number(),
  tokensAfter: z.number().nullable(),
  /** The first and the last message that it was about. */
  fromSeq: z.number(),
  uptoSeq: z.number(),
  /** The id of the message that stands for them; null: there is none. */
  summaryMessageId: z.uuid().nullable(),
  attempts: z.number(),
  /** Null while it is under way. */
  usage: usageSchema.nullable(),
  costUsd: z.number().nullable(),
  error: errorRecordSchema.nullable(),
  startedAt: z.date(),
  finishedAt: z.date().nullable(),
});
export type CompactionRecord = z.infer<typeof compactionRow>;

/** The latest rounds of compaction of a session, the newest first. */
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

export type RequestedMaintenance = Readonly<{
  /** The run that does it. */
  runId: string;
  /** True when a run is at work: it is done before its next step. */
  queued: boolean;
  eventSeq: number;
  job: JobPayload | null;
}>;

/**
 * Asks for a compaction or a prune: at once in a run of its own, or before the next step of the run that is at work.
 * The last one asked for counts.
 * @throws BatonError `not_found`
 */
export async function requestMaintenance(
  db: Db,
  request: Readonly<{ tenantId: string; sessionId: string; kind: Exclude<PendingKind, 'step'>; runId: string }>,
): Promise<RequestedMaintenance> {
  const { sessionId, kind, runId } = request;
  return inTransaction(db, async (tx) => {
    const session = await lockSession(tx, request.tenantId, sessionId);
    if (session.active_run_id !== null) {
      await tx.updateTable('sessions').set({ requested_maintenance: kind }).where('id', '=', sessionId).execute();
      return { runId: session.active_run_id, queued: true, eventSeq: session.event_seq, job: null };
    }
    await sql`select baton_take_requested(${sessionId})`.execute(tx);
    return {
      runId,
      queued: false,
      ...(await startRun(tx, { sessionId, runId, kind: 'maintenance', pendingKind: kind })),
    };
  });
}
