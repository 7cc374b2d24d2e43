import { sql } from 'kysely';
import type { ErrorRecord } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { LimitReason } from '../domain/run/run.ts';
import { NOT_RUN } from '../domain/run/settlement.ts';
import { newId } from '../platform/new-id.ts';
import { readStreamedParts } from './chunks.ts';
import type { Fence } from './claims.ts';
import { closeOpenCompaction } from './compactions.ts';
import type { Db, Tx } from './database.ts';
import { appendEvents } from './events.ts';
import { toJson } from './json.ts';
import { closeOpenCalls } from './open-calls.ts';
import { startRequested, startRun } from './start-run.ts';

/** The end of a failed run: the session's last event, and the limit that had already ended its work, if any. */
export type FailedRun = Readonly<{ eventSeq: number; limit: LimitReason | null }>;

/**
 * Ends a run as failed and parks its messages. Open calls get an outcome; an unfinished message is superseded, or kept
 * as streamed if the run is `cancelling`.
 * A run in its final answer ends as `incomplete` instead, and queued messages start the next run.
 * The caller holds the locks of session and run.
 */
export async function failRun(tx: Tx, sessionId: string, runId: string, error: ErrorRecord): Promise<FailedRun> {
  const closed = await closeOpenCalls(tx, runId, NOT_RUN);
  await keepIfCancelled(tx, sessionId, runId);
  const events = [...closed, ...(await dropUnfinished(tx, runId))];
  const { rows } = await sql<{ limit: LimitReason | null }>`
    update runs set status = case when final_answer_for is null or status = 'cancelling' then 'failed' else 'incomplete' end,
      status_reason = case when status <> 'cancelling' then final_answer_for end,
      error = ${toJson(error)}::jsonb, pending_kind = null, claim_id = null,
      lease_owner = null, lease_expires_at = null, epoch = epoch + 1, finished_at = clock_timestamp()
    where id = ${runId} returning status_reason as limit`.execute(tx);
  const limit = rows[0]?.limit ?? null;
  await sql`
    update sessions set status = 'idle', active_run_id = null, epoch = epoch + 1 where id = ${sessionId}`.execute(tx);
  events.push(...(await closeOpenCompaction(tx, sessionId, error)));
  const data = { runId: formatId('run', runId), error };
  events.push(
    limit === null ? { type: 'run:failed', data } : { type: 'run:incomplete', data: { ...data, reason: limit } },
  );
  const eventSeq = await appendEvents(tx, sessionId, runId, events);
  // The reconciler adds the job of the next run, because this end of a run is rare.
  const next = limit === null ? await promisedAfter(tx, sessionId, runId) : await runForWaiting(tx, sessionId);
  const started = next === null ? await startRequested(tx, sessionId) : await startRun(tx, { sessionId, runId: next });
  return { limit, eventSeq: started?.eventSeq ?? eventSeq };
}

/** The id for a run of the queued messages. Null: none is queued. */
async function runForWaiting(tx: Tx, sessionId: string): Promise<string | null> {
  const { rows } = await sql<{ id: string | null }>`
    select next_run_id as id from sessions where id = ${sessionId} and exists (
      select 1 from inbox where session_id = ${sessionId} and consumed_message_seq is null)`.execute(tx);
  const [row] = rows;
  return row === undefined ? null : (row.id ?? newId());
}

/**
 * The promised run, if a message was accepted during a maintenance run or after a cancel: the failure does not concern
 * that message. All others stay parked.
 */
async function promisedAfter(tx: Tx, sessionId: string, runId: string): Promise<string | null> {
  const { rows } = await sql<{ id: string }>`
    select sessions.next_run_id as id from sessions join runs on runs.id = ${runId}
    where sessions.id = ${sessionId} and sessions.next_run_id is not null and exists (
      select 1 from inbox where session_id = ${sessionId} and consumed_message_seq is null and run_id is null
        and seq > coalesce(cancel_inbox_seq, case when runs.kind = 'maintenance' then start_inbox_seq end))`.execute(
    tx,
  );
  return rows[0]?.id ?? null;
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
    const streamed = await readStreamedParts(tx, messageId);
    if (streamed.length === 0) continue;
    const kept = { messageId, parts: [{ type: 'step-start' }, ...streamed], finishReason: 'aborted', model };
    await sql`select baton_apply_response(${sessionId}, ${toJson(kept)}::jsonb)`.execute(tx);
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
