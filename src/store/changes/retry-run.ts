import { sql } from 'kysely';
import { type Db, inTransaction } from '../db/database.ts';
import { lockSession } from '../session/sessions.ts';
import { type StartedRun, startedRunSchema } from '../session/start-run.ts';
import { findLastTask } from './resume.ts';

export type RetriedRun = StartedRun & Readonly<{ sessionId: string }>;

/** `moved_on`: the run is not the last task, has not failed, or was reverted. `busy`: a maintenance run is active. */
export type NotRetried = 'moved_on' | 'busy';

/**
 * Queues a failed run again, with a new step after the failed one. Its limits stay as used as they were, without the
 * time since the failure; messages queued since join it or keep their promised run.
 * @returns `moved_on` if the session was used, resumed or deleted, or the run was retried before
 */
export function retryFailedRun(db: Db, runId: string): Promise<RetriedRun | NotRetried> {
  return inTransaction(db, async (tx) => {
    const run = await tx
      .selectFrom('runs')
      .select(['session_id', 'tenant_id'])
      .where('id', '=', runId)
      .executeTakeFirst();
    if (run === undefined) return 'moved_on';
    const session = await lockSession(tx, run.tenant_id, run.session_id);
    const last = await findLastTask(tx, session.id);
    if (last?.id !== runId || last.status !== 'failed' || last.isReverted) return 'moved_on';
    if (session.active_run_id !== null) return 'busy';
    const { rows } = await sql<{ started: unknown }>`select baton_retry_run(${runId}) as started`.execute(tx);
    return { sessionId: session.id, ...startedRunSchema.parse(rows[0]?.started) };
  });
}
