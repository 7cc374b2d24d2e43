import { toErrorRecord } from '../domain/errors.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { describeNext } from '../domain/run/job-report.ts';
import type { Branch, NextPlan } from '../domain/run/next-step.ts';
import type { Usage } from '../domain/usage.ts';
import { toSafeError } from '../platform/log.ts';
import type { AddOptions } from '../queues/job-queue.ts';
import type { FinishedWork } from '../store/finished-work.ts';
import type { JobDeps } from './job-deps.ts';
import { durationMs, type JobScope, logFields } from './job-scope.ts';

/**
 * Passes the baton after the end of a job was committed: tells the readers, and adds the next jobs. Where the end could
 * not be committed (null), another worker has the run, and nothing is passed on. False: fenced.
 * @param usage of the job's model calls
 */
export async function enqueueNext(
  deps: JobDeps,
  scope: JobScope,
  finished: FinishedWork | null,
  next: NextPlan,
  { totalTokens: tokens }: Pick<Usage, 'totalTokens'>,
): Promise<boolean> {
  if (finished === null) {
    scope.held.stop('lost');
    deps.log('warn', { event: 'step_fenced', ...logFields(scope) });
    return false;
  }
  // The claim went with the commit: a heartbeat that misses it meanwhile has found nothing.
  scope.held[Symbol.dispose]();
  deps.bus.announce(scope.sessionId, finished.eventSeq);
  const branch = next[finished.branch];
  scope.ended.report = { step: scope.stepNo, tokens, ms: durationMs(scope), next: describeNext(branch) };
  if ('status' in branch) noteEnd(deps, scope, branch);
  // Nobody knows how long a run waits for an answer, nor who goes on with it then: nothing of it is kept meanwhile.
  if (!('pendingKind' in branch)) deps.views.forget(scope.runId);
  const delayMs = 'pendingKind' in branch ? (branch.retryDelayMs ?? branch.postponeMs) : undefined;
  await enqueue(deps, finished.jobs, delayMs === undefined ? {} : { delayMs });
  return true;
}

function noteEnd(deps: JobDeps, scope: JobScope, branch: Extract<Branch, { status: string }>): void {
  const { runId, sessionId } = scope;
  if (branch.status === 'failed') scope.ended.failure = branch.error ?? toErrorRecord(undefined);
  const { status, reason = branch.error?.code } = branch;
  deps.log('info', { event: 'run_ended', runId, sessionId, status, ...(reason !== undefined && { reason }) });
}

/** Adds jobs; a queue that is away costs a moment, not the work: the reconciler adds what is missing. */
export async function enqueue(
  deps: Pick<JobDeps, 'jobs' | 'log'>,
  jobs: readonly JobPayload[],
  place: AddOptions = {},
): Promise<void> {
  if (jobs.length === 0) return;
  try {
    await deps.jobs.add(jobs, place);
  } catch (error) {
    deps.log('warn', { event: 'jobs_not_enqueued', runIds: jobs.map((job) => job.runId), error: toSafeError(error) });
  }
}
