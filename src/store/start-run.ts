import { sql } from 'kysely';
import { type JobPayload, jobPayloadSchema } from '../domain/job.ts';
import type { PendingKind, RunKind } from '../domain/run.ts';
import type { RunLimits } from '../domain/run-limits.ts';
import { currentTraceparent } from '../runtime/tracing.ts';
import type { Tx } from './database.ts';
import { toJson } from './json.ts';

/**
 * Starts a run in a session whose lock the caller holds and that has no active one. A task run gets everything that waits,
 * and is the one that was promised to whoever waits. It belongs to the trace that is active.
 */
export async function startRun(
  tx: Tx,
  run: Readonly<{
    sessionId: string;
    runId: string;
    kind?: RunKind;
    pendingKind?: PendingKind;
    limits?: RunLimits;
  }>,
): Promise<Readonly<{ job: JobPayload; eventSeq: number }>> {
  const { sessionId, runId, kind = 'task', pendingKind = 'step', limits = {} } = run;
  const { rows } = await sql<{ seq: number }>`
    select baton_start_run(${sessionId}, ${runId}, ${kind}, ${currentTraceparent()}, ${pendingKind}, ${toJson(limits)}::jsonb) as seq`.execute(
    tx,
  );
  const job = await sql<{ job: unknown }>`select baton_job_of(${runId}) as job`.execute(tx);
  return { job: jobPayloadSchema.parse(job.rows[0]?.job), eventSeq: rows[0]?.seq ?? 0 };
}
