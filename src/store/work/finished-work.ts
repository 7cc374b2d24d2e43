import { sql } from 'kysely';
import { z } from 'zod';
import { jobPayloadSchema } from '../../domain/run/job.ts';
import type { Db } from '../db/database.ts';

export const finishedWorkSchema = z.object({
  /** The branch of the plan that the transaction took. */
  branch: z.enum(['ifCancelled', 'ifMessagesWait', 'otherwise']),
  eventSeq: z.number().int(),
  /** To enqueue after the commit. */
  jobs: z.array(jobPayloadSchema),
});
export type FinishedWork = z.infer<typeof finishedWorkSchema>;

/** `delayMs`: until the work is due. */
export type PendingJob = z.infer<typeof pendingJobSchema>;
const pendingJobSchema = z.object({ job: jobPayloadSchema, delayMs: z.number() });

/** The job that the active run of a session needs. Null: there is no such run, it waits, or a worker has claimed it. */
export async function findPendingJob(db: Db, sessionId: string): Promise<PendingJob | null> {
  const { rows } = await sql`
    select baton_pending_job(runs) as job,
      greatest(0, ceil(extract(epoch from runs.pending_at - clock_timestamp()) * 1000))::float8 as "delayMs"
    from sessions join runs on runs.id = sessions.active_run_id
    where sessions.id = ${sessionId} and runs.due_at is not null`.execute(db);
  return pendingJobSchema.nullable().parse(rows[0] ?? null);
}
