import { sql } from 'kysely';
import { type JobPayload, jobPayloadSchema } from '../domain/run/job.ts';
import type { PendingKind, RunKind } from '../domain/run/run.ts';
import type { RunLimits } from '../domain/run/run-limits.ts';
import { newId } from '../platform/new-id.ts';
import { currentTraceparent } from '../platform/tracing.ts';
import type { Tx } from './database.ts';
import { toJson } from './json.ts';

export type StartedRun = Readonly<{ job: JobPayload; eventSeq: number }>;

/**
 * Starts a run in an idle session whose lock the caller holds; a requested compaction or prune goes before its first
 * step. A task run takes all queued messages and uses `sessions.next_run_id`, which their senders already know.
 * @param run.resumes true: the run inherits the limits of the last run, counted anew; `limits` and those of queued
 * messages override them
 */
export async function startRun(
  tx: Tx,
  run: Readonly<{
    sessionId: string;
    runId: string;
    kind?: RunKind;
    pendingKind?: PendingKind;
    limits?: RunLimits;
    resumes?: boolean;
  }>,
): Promise<StartedRun> {
  const { sessionId, runId, kind = 'task', pendingKind = 'step', limits = {}, resumes = false } = run;
  const { rows } = await sql<{ seq: number }>`
    select baton_start_run(${sessionId}, ${runId}, ${kind}, ${currentTraceparent()}, ${pendingKind},
      ${toJson(limits)}::jsonb, ${resumes}) as seq`.execute(tx);
  return { job: await readJob(tx, runId), eventSeq: rows[0]?.seq ?? 0 };
}

export async function readJob(tx: Tx, runId: string): Promise<JobPayload> {
  const { rows } = await sql<{ job: unknown }>`select baton_job_of(${runId}) as job`.execute(tx);
  return jobPayloadSchema.parse(rows[0]?.job);
}

/**
 * Starts the work that was requested during the last run: the run of a resume, else a compaction or prune. The caller
 * holds the session's lock.
 * @returns null: none was requested, or a run is active
 */
export async function startRequested(tx: Tx, sessionId: string): Promise<StartedRun | null> {
  const session = await tx
    .selectFrom('sessions')
    .select(['active_run_id', 'next_run_id', 'requested_resume', 'requested_maintenance'])
    .where('id', '=', sessionId)
    .executeTakeFirstOrThrow();
  const { next_run_id: promised, requested_maintenance: pendingKind } = session;
  if (session.active_run_id !== null) return null;
  if (session.requested_resume !== null && promised !== null) return startRun(tx, { sessionId, runId: promised });
  if (pendingKind === null) return null;
  await sql`select baton_take_requested(${sessionId})`.execute(tx);
  return startRun(tx, { sessionId, runId: newId(), kind: 'maintenance', pendingKind });
}
