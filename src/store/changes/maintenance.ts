import { sql } from 'kysely';
import type { JobPayload } from '../../domain/run/job.ts';
import type { PendingKind } from '../../domain/run/run.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { lockSession } from '../session/sessions.ts';
import { startRun } from '../session/start-run.ts';

export type RequestedMaintenance = Readonly<{
  runId: string;
  /** True: another run is active and does the work before its next step. */
  queued: boolean;
  eventSeq: number;
  job: JobPayload | null;
}>;

/**
 * Requests a compaction or a prune: before the next step of the active run, else in a run of its own. A later request
 * replaces an earlier one.
 * @throws BatonError `not_found`
 */
export async function requestMaintenance(
  db: Db | Tx,
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
