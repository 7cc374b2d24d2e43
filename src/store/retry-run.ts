import { sql } from 'kysely';
import { formatId } from '../domain/ids.ts';
import { jobPayloadSchema } from '../domain/run/job.ts';
import { type Db, inTransaction } from './database.ts';
import { appendEvents } from './events.ts';
import { findLastTask } from './resume.ts';
import { lockSession } from './sessions.ts';
import type { StartedRun } from './start-run.ts';

export type RetriedRun = StartedRun & Readonly<{ sessionId: string }>;

/** `moved_on`: the run is not the last task, or has not failed. `busy`: a maintenance run is active. */
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
    if (last?.id !== runId || last.status !== 'failed') return 'moved_on';
    if (session.active_run_id !== null) return 'busy';
    await sql`
      update runs set status = 'queued', error = null, finished_at = null,
        pending_kind = 'step', pending_no = pending_no + 1, pending_dispatch = pending_dispatch + 1,
        pending_at = clock_timestamp(), next_check_at = null, attempt = 1, resume_count = 0,
        -- Whoever tries it again wants it to go on, although it was being cancelled when it failed.
        cancel_requested_at = null, cancel_inbox_seq = null,
        deadline_at = deadline_at + (clock_timestamp() - finished_at)
      where id = ${runId}`.execute(tx);
    // As for any new run: no pending compaction, and none tried yet.
    await sql`
      update sessions set status = 'busy', active_run_id = ${runId},
        context_state = context_state - 'pending' - 'compactionsSinceStep'
      where id = ${session.id}`.execute(tx);
    const eventSeq = await appendEvents(tx, session.id, runId, [
      { type: 'run:queued', data: { runId: formatId('run', runId) } },
    ]);
    const { rows } = await sql<{ job: unknown }>`select baton_job_of(${runId}) as job`.execute(tx);
    return { sessionId: session.id, job: jobPayloadSchema.parse(rows[0]?.job), eventSeq };
  });
}
