import { sql } from 'kysely';
import { z } from 'zod';
import { type JobPayload, jobPayloadSchema } from '../../domain/run/job.ts';
import type { PendingKind, RunKind } from '../../domain/run/run.ts';
import type { RunLimits } from '../../domain/run/run-limits.ts';
import { newId } from '../../platform/new-id.ts';
import { currentTraceparent } from '../../platform/tracing.ts';
import type { Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';

export const startedRunSchema = z.object({ job: jobPayloadSchema, eventSeq: z.number().int() });
export type StartedRun = Readonly<z.infer<typeof startedRunSchema>>;

/**
 * Starts a run in an idle session whose lock the caller holds; a requested compaction or prune goes before its first
 * step. A task run takes all queued messages and uses `sessions.next_run_id`, which their senders already know.
 * @param run.resumes true: the run inherits the limits of the last run, counted anew; `limits` and those of queued
 * messages override them
 * @param run.lowered takes the limits down that hold otherwise, never up
 */
export async function startRun(
  tx: Tx,
  run: Readonly<{
    sessionId: string;
    runId: string;
    kind?: RunKind;
    pendingKind?: PendingKind;
    limits?: RunLimits;
    lowered?: RunLimits;
    resumes?: boolean;
  }>,
): Promise<StartedRun> {
  const { sessionId, runId, kind = 'task', pendingKind = 'step', limits = {}, lowered = {}, resumes = false } = run;
  const { rows } = await sql<{ seq: number }>`
    select baton_start_run(${sessionId}, ${runId}, ${kind}, ${currentTraceparent()}, ${pendingKind},
      ${toJson(limits)}::jsonb, ${toJson(lowered)}::jsonb, ${resumes}) as seq`.execute(tx);
  return { job: await readJob(tx, runId), eventSeq: rows[0]?.seq ?? 0 };
}

export async function readJob(tx: Tx, runId: string): Promise<JobPayload> {
  const { rows } = await sql<{ job: unknown }>`select baton_job_of(${runId}) as job`.execute(tx);
  return jobPayloadSchema.parse(rows[0]?.job);
}

/** Ends the wait of a run: its step is pending again. The caller holds the locks of session and run. */
export async function resumeRun(tx: Tx, sessionId: string, runId: string): Promise<JobPayload> {
  const { rows } = await sql<{ job: unknown }>`select baton_resume_run(${sessionId}, ${runId}) as job`.execute(tx);
  return jobPayloadSchema.parse(rows[0]?.job);
}

/**
 * Starts the run that follows the end of a run: for queued messages that are not parked, or a resume, compaction or
 * prune that was requested meanwhile. The caller holds the session's lock and has ended the run.
 * @returns null: nothing follows
 */
export async function followRunEnd(tx: Tx, runId: string): Promise<StartedRun | null> {
  const { rows } = await sql<{ started: unknown }>`
    select baton_follow_run_end(${runId}, ${newId()}) as started`.execute(tx);
  return startedRunSchema.nullable().parse(rows[0]?.started ?? null);
}
