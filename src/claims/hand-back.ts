import { addJobs } from '../commands/after-commit.ts';
import { handBackRun } from '../store/work/claims.ts';
import { enqueueLeft } from './enqueue-next.ts';
import type { JobDeps } from './job-deps.ts';
import { type JobScope, logFields } from './job-scope.ts';

/**
 * Gives a run back to the queue, if this worker still has its claim. No attempt is counted.
 * @param isRepeated an earlier try may have been committed: the job that it left is added
 */
export async function handBack(
  deps: Pick<JobDeps, 'db' | 'jobs' | 'log'>,
  scope: JobScope,
  isRepeated: boolean,
): Promise<void> {
  scope.held.lettingGo();
  const job = await handBackRun(deps.db, scope.fence);
  if (job === null) {
    if (isRepeated) await enqueueLeft(deps, scope.sessionId);
    return;
  }
  deps.log('info', { event: 'step_handed_back', ...logFields(scope) });
  // First in the queue, because its step has already begun.
  await addJobs(deps, [job], { isFirst: true });
}
