import { sql } from 'kysely';
import { z } from 'zod';
import { type ContextState, contextStateSchema } from '../domain/context/state.ts';
import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { JobPayload } from '../domain/job.ts';
import type { ViewMessage } from '../domain/message.ts';
import type { PendingKind } from '../domain/run.ts';
import { viewSchema } from './claims.ts';
import type { Db } from './database.ts';
import { lockSession, sessionNotFound } from './sessions.ts';
import { startRun } from './start-run.ts';

/** What a session's next request would be measured by, all of one moment. */
export type SessionContext = Readonly<{
  view: readonly ViewMessage[];
  contextState: ContextState;
  agentSnapshot: unknown;
  /** Since when a compaction is under way. */
  compactingSince: Date | null;
}>;

/** Reads a session's view and what is known of its context. @throws BatonError `not_found` */
export async function readContext(db: Db, tenantId: string, sessionId: string): Promise<SessionContext> {
  const { rows } = await sql<{ view: unknown; state: unknown; snapshot: unknown; compacting: Date | null }>`
    select baton_view(id) as view, context_state as state, agent_snapshot as snapshot, compacting_since as compacting
    from sessions where id = ${sessionId} and tenant_id = ${tenantId}`.execute(db);
  const [row] = rows;
  if (row === undefined) throw sessionNotFound(sessionId);
  return {
    view: viewSchema.parse(row.view),
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
  attempts: z.number(),
  costUsd: z.number(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
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
      cost_usd as "costUsd", error, started_at as "startedAt", finished_at as "finishedAt"
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
 * @throws BatonError `not_found`, `session_closed`
 */
export async function requestMaintenance(
  db: Db,
  request: Readonly<{ tenantId: string; sessionId: string; kind: Exclude<PendingKind, 'step'>; runId: string }>,
): Promise<RequestedMaintenance> {
  const { sessionId, kind, runId } = request;
  return db.transaction().execute(async (tx) => {
    const session = await lockSession(tx, request.tenantId, sessionId);
    if (session.status === 'closed') {
      throw new BatonError('session_closed', `session ${formatId('session', sessionId)} is closed`);
    }
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
