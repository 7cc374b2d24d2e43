import { sql } from 'kysely';
import type { ErrorRecord } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import { failedBranch, stoppedBranch } from '../../domain/run/next-step.ts';
import type { LimitReason } from '../../domain/run/run.ts';
import { NOT_RUN } from '../../domain/run/settlement.ts';
import type { Db, Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import { endRun } from '../session/end-run.ts';
import { followRunEnd } from '../session/start-run.ts';
import { readStreamedParts } from '../transcript/chunks.ts';
import { closeOpenCompaction } from '../transcript/compactions.ts';
import { closeOpenCalls, type LeftCall } from '../transcript/open-calls.ts';
import type { Fence } from './claims.ts';

/** Calls of a failed run that have begun work elsewhere, and the agent that has their tools. */
export type LeftWork = Readonly<{ agentSnapshot: unknown; calls: readonly LeftCall[] }>;

/** The end of a failed run: the session's last event, and the limit that had already ended its work, if any. */
export type FailedRun = Readonly<{
  eventSeq: number;
  limit: LimitReason | null;
  /** Null: its calls leave nothing behind elsewhere. */
  left: LeftWork | null;
}>;

/**
 * Ends a run as failed. Open calls get an outcome; an unfinished message is superseded, or kept
 * as streamed if the run is `cancelling`.
 * A run in its final answer ends as `incomplete` instead.
 * The caller holds the locks of session and run.
 */
export async function failRun(tx: Tx, sessionId: string, runId: string, error: ErrorRecord): Promise<FailedRun> {
  const { events: closed, left: calls } = await closeOpenCalls(tx, runId, NOT_RUN);
  const left = calls.length === 0 ? null : { agentSnapshot: await readAgentOf(tx, sessionId), calls };
  await keepIfCancelled(tx, sessionId, runId);
  const dropped = await dropUnfinished(tx, runId);
  const cut = await closeOpenCompaction(tx, sessionId, error);
  const limit = await reachedLimit(tx, runId);
  const name = formatId('run', runId);
  const end = limit === null ? failedBranch(name, error) : stoppedBranch(name, limit, error);
  const eventSeq = await endRun(tx, runId, end, [...closed, ...dropped, ...cut]);
  // The reconciler adds the job of the next run, because this end of a run is rare.
  const started = await followRunEnd(tx, runId);
  return { limit, left, eventSeq: started?.eventSeq ?? eventSeq };
}

async function readAgentOf(tx: Tx, sessionId: string): Promise<unknown> {
  const { agent_snapshot: agent } = await tx
    .selectFrom('sessions')
    .select('agent_snapshot')
    .where('id', '=', sessionId)
    .executeTakeFirstOrThrow();
  return agent;
}

/** The limit that has ended the work of a run, if only its final answer was left. A cancel comes before it. */
async function reachedLimit(tx: Tx, runId: string): Promise<LimitReason | null> {
  const { final_answer_for: limit, status } = await tx
    .selectFrom('runs')
    .select(['final_answer_for', 'status'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow();
  return status === 'cancelling' ? null : limit;
}

/** `failRun` for the worker that has claimed the run. Null: fenced. */
export async function failClaimedRun(db: Db, fence: Fence, error: ErrorRecord): Promise<FailedRun | null> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ session: string | null }>`
      select session_id as session from baton_lock_claimed_run(${fence.runId}, ${fence.epoch}, ${fence.claimId})`.execute(
      tx,
    );
    const sessionId = rows[0]?.session ?? null;
    return sessionId === null ? null : failRun(tx, sessionId, fence.runId, error);
  });
}

/** Finishes the open message of a cancelled run with the text that was streamed. */
async function keepIfCancelled(tx: Tx, sessionId: string, runId: string): Promise<void> {
  const { rows } = await sql<{ messageId: string; model: string }>`
    select messages.id as "messageId", sessions.agent_snapshot ->> 'model' as model
    from messages join runs on runs.id = messages.run_id join sessions on sessions.id = messages.session_id
    where messages.run_id = ${runId} and messages.session_id = ${sessionId} and role = 'assistant'
      and finish_reason is null and not superseded and runs.cancel_requested_at is not null`.execute(tx);
  for (const { messageId, model } of rows) {
    const streamed = await readStreamedParts(tx, { sessionId, messageId });
    if (streamed.length === 0) continue;
    const kept = { messageId, parts: [{ type: 'step-start' }, ...streamed], finishReason: 'aborted', model };
    await sql`select baton_apply_response(${sessionId}, ${toWrittenJson(kept)}::jsonb)`.execute(tx);
  }
}

async function dropUnfinished(tx: Tx, runId: string): Promise<NewEvent[]> {
  const { rows } = await sql<{ id: string; step: number }>`
    update messages set superseded = true, finished_at = clock_timestamp()
    where run_id = ${runId} and role = 'assistant' and finish_reason is null and not superseded
    returning id, step_no as step`.execute(tx);
  return rows.map(({ id, step }) => ({
    type: 'step:reset',
    data: { runId: formatId('run', runId), step, messageId: formatId('message', id) },
  }));
}
