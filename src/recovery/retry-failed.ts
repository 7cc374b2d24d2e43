import { afterChanged, type EffectPorts } from '../commands/after-commit.ts';
import type { JobPayload } from '../domain/run/job.ts';
import type { JobOutcome } from '../queues/job-queue.ts';
import { retryFailedRun } from '../store/changes/retry-run.ts';

/** Delay of a retry while a maintenance run is active. */
const BUSY_RETRY_MS = 1_000;

/** Handles a job that an operator retried: queues its failed run again, unless the session has moved on. */
export async function retryFailed(deps: EffectPorts, job: JobPayload): Promise<JobOutcome> {
  const { runId } = job;
  const retried = await retryFailedRun(deps.db, runId);
  if (retried === 'busy') return { outcome: 'later', delayMs: BUSY_RETRY_MS };
  if (retried === 'moved_on') {
    deps.log('info', { event: 'job_ignored', runId, reason: 'moved_on' });
    return { outcome: 'done' };
  }
  deps.log('info', { event: 'run_retried', runId, sessionId: retried.sessionId });
  await afterChanged(deps, retried.sessionId, retried);
  return { outcome: 'done' };
}
