import { sql } from 'kysely';
import { MAX_RESUMES_PER_STEP } from '../../domain/tunables.ts';
import { type Db, inTransaction } from '../db/database.ts';
import { type FailedRun, failRun } from './run-failure.ts';

const STATEMENT_TIMEOUT = '57014';

/** Whether Postgres ended a statement by `statement_timeout`, not by `lock_timeout`. */
export const isStatementTimeout = (error: unknown): error is Error =>
  error instanceof Error && 'code' in error && error.code === STATEMENT_TIMEOUT;

export type GivenUpRun = FailedRun & Readonly<{ sessionId: string; resumeCount: number }>;

/**
 * Counts a claim that Postgres timed out like a lost worker, because a repetition would take as long; the run fails at
 * `MAX_RESUMES_PER_STEP`. Null: the claim is tried again.
 */
export function countClaimTimeout(db: Db, runId: string, cause: Error): Promise<GivenUpRun | null> {
  return inTransaction(db, async (tx) => {
    const { rows } = await sql<{ sessionId: string; resumeCount: number }>`
      with locked as (
        select id from sessions where id = (select session_id from runs where id = ${runId}) for update
      )
      update runs set resume_count = resume_count + 1 from locked
      where runs.id = ${runId} and runs.session_id = locked.id and claim_id is null and pending_kind is not null
      returning locked.id as "sessionId", resume_count as "resumeCount"`.execute(tx);
    const [run] = rows;
    if (run === undefined || run.resumeCount < MAX_RESUMES_PER_STEP) return null;
    const message = `The step could not be begun: Postgres ended it ${run.resumeCount} times (${cause.message}).`;
    return { ...run, ...(await failRun(tx, run.sessionId, runId, { code: 'resume_limit', message })) };
  });
}
