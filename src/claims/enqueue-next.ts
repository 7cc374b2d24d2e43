import { addJobs, afterEvent } from '../commands/after-commit.ts';
import type { EndBranch, NextPlan } from '../domain/run/branch.ts';
import { describeNext } from '../domain/run/job-report.ts';
import type { Usage } from '../domain/usage.ts';
import { noteRunEnd } from '../store/session/note-run-end.ts';
import { type FinishedWork, findPendingJob } from '../store/work/finished-work.ts';
import type { FinishedStep } from '../store/work/step-writes.ts';
import type { JobDeps } from './job-deps.ts';
import { durationMs, type JobScope, logFields, type NextClaim } from './job-scope.ts';

/**
 * After the commit that ends a job: tells the readers and adds the next jobs.
 * @param finished null: the worker was fenced, and nothing follows
 * @param usage of the job's model calls
 * @param nextClaim set if the transaction may have begun the next step for this worker
 * @returns false: fenced
 */
export async function enqueueNext(
  deps: JobDeps,
  scope: JobScope,
  {
    finished,
    next,
    nextClaim = null,
  }: Readonly<{
    finished: (FinishedWork & Partial<FinishedStep>) | null;
    next: NextPlan;
    nextClaim?: NextClaim | null;
  }>,
  { totalTokens: tokens }: Pick<Usage, 'totalTokens'>,
): Promise<boolean> {
  if (finished === null) {
    scope.held.stop('lost');
    deps.views.forget(scope.runId);
    deps.log('warn', { event: 'step_fenced', ...logFields(scope) });
    return false;
  }
  // The commit ended the claim, so a heartbeat must not report it as lost.
  scope.held[Symbol.dispose]();
  afterEvent(deps, scope.sessionId, finished);
  const branch = next[finished.branch];
  scope.ended.report = { step: scope.stepNo, tokens, ms: durationMs(scope), next: describeNext(branch) };
  const noted = branch.kind === 'end' ? noteEnd(deps, scope, branch) : undefined;
  // The run may wait long, and another worker may go on with it.
  if (branch.kind === 'end' || branch.kind === 'wait') deps.views.forget(scope.runId);
  const [job] = finished.jobs;
  if (job !== undefined && finished.claimed && nextClaim !== null) {
    // Not added here: the consumer adds it while it ends this job, in one transaction of the queue, so that no other
    // worker can take it in between (`src/queues/hand-over.ts`).
    scope.ended.next = job;
    nextClaim.goOn(job, finished.claimed);
    return true;
  }
  const isLater = branch.kind === 'retry' || branch.kind === 'postpone';
  await addJobs(deps, finished.jobs, isLater ? { delayMs: branch.delayMs } : {});
  await noted;
  return true;
}

async function noteEnd(deps: JobDeps, scope: JobScope, branch: EndBranch): Promise<void> {
  const { runId, sessionId } = scope;
  const { status } = branch;
  if (status === 'failed') scope.ended.failure = branch.error;
  const reason = status === 'failed' ? branch.error.code : status === 'incomplete' ? branch.reason : undefined;
  await noteRunEnd(deps, {
    runId,
    sessionId,
    agent: scope.agent.name,
    status,
    ...(reason !== undefined && { reason }),
  });
}

/**
 * Adds the job that the session's active run needs, if no worker has claimed that run. For a write that may have been
 * committed although its reply was lost: no other process adds the job that this commit left.
 */
export async function enqueueLeft(deps: Pick<JobDeps, 'db' | 'jobs' | 'log'>, sessionId: string): Promise<void> {
  const left = await findPendingJob(deps.db, sessionId);
  if (left !== null) await addJobs(deps, [left.job], left.delayMs > 0 ? { delayMs: left.delayMs } : {});
}
