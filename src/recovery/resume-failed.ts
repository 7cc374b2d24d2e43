import type { JobPayload } from '../domain/job.ts';
import { enqueue } from '../jobs/pass-on.ts';
import { resumeAfterFailure } from '../store/resume.ts';
import type { RecoveryDeps } from './take-back.ts';

/**
 * Somebody has asked the queue for another try of a job whose run failed: the session goes on with a run of its own. Once
 * only, and not where the session has moved on: then the job is none to do any more.
 */
export async function resumeFailed(
  deps: RecoveryDeps & Readonly<{ newId: () => string }>,
  job: JobPayload,
): Promise<void> {
  const resumed = await resumeAfterFailure(deps.db, job.runId, deps.newId());
  if (resumed === null) {
    deps.log('info', { event: 'job_ignored', runId: job.runId, reason: 'moved_on' });
    return;
  }
  deps.bus.announce(resumed.sessionId, resumed.eventSeq);
  deps.log('info', { event: 'run_retried', runId: job.runId, sessionId: resumed.sessionId, newRunId: resumed.runId });
  await enqueue(deps, [resumed.job]);
}
