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
 * After the commit that ends a job: tells the readers and adds the next jobs.
 * @param finished null: the worker was fenced, and nothing follows
 * @param usage of the job's model calls
 * @returns false: fenced
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
  // The commit ended the claim, so a heartbeat must not report it as lost.
  scope.held[Symbol.dispose]();
  deps.bus.announce(scope.sessionId, finished.eventSeq);
  const branch = next[finished.branch];
  scope.ended.report = { step: scope.stepNo, tokens, ms: durationMs(scope), next: describeNext(branch) };
  if ('status' in branch) noteEnd(deps, scope, branch);
  // The run may wait long, and another worker may go on with it.
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

/** Adds jobs. If the queue is away this is only logged, because the reconciler adds the missing jobs. */
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
