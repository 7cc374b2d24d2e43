import { setTimeout as delay } from 'node:timers/promises';
import type { JobPayload } from '../domain/run/job.ts';
import type { LiveBus } from '../events/live-bus.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import type { AddOptions, JobQueues } from '../queues/job-queue.ts';
import type { AnsweredCall } from '../store/changes/call-answers.ts';
import type { CancelOutcome } from '../store/changes/cancels.ts';
import type { AcceptedMessage } from '../store/changes/inbox.ts';

/** The queues, the live bus and the log that hear of a commit. */
export type AfterDeps = Readonly<{
  jobs: JobQueues;
  bus: LiveBus;
  log: Log;
  /** Looks for due work of children. Absent: this process leaves children to other processes. */
  lookAfterChildren?: () => void;
}>;

/** Longest wait of a request for the queue. Its message is in Postgres already. */
const QUEUE_PATIENCE_MS = 1_000;

/**
 * Adds the job of a committed change. Never rejects: if adding fails, the reconciler adds the job from the run's row.
 */
async function dispatchJob({ jobs, log }: AfterDeps, job: JobPayload, options?: AddOptions): Promise<void> {
  const adding = jobs
    .add([job], options)
    .catch((error: unknown) =>
      log('warn', { event: 'jobs_not_enqueued', runIds: [job.runId], error: toSafeError(error) }),
    );
  const patience = new AbortController();
  const waited = delay(QUEUE_PATIENCE_MS, undefined, { signal: patience.signal, ref: false }).catch(() => undefined);
  await Promise.race([adding, waited]);
  patience.abort();
}

/** After the commit of a message: tells the session's readers and the worker of a cancelled run, and adds the job. */
export async function afterAccepted(deps: AfterDeps, sessionId: string, accepted: AcceptedMessage): Promise<void> {
  deps.bus.announce(sessionId, accepted.eventSeq);
  if (accepted.cancelled !== null) await afterCancelled(deps, accepted.cancelled);
  if (accepted.job !== null) await dispatchJob(deps, accepted.job);
}

/** After the commit of a cancel: tells the session's readers and the run's worker, and adds the job that follows. */
export async function afterCancelled(deps: AfterDeps, outcome: CancelOutcome): Promise<void> {
  const { bus, log } = deps;
  const { runId, sessionId, status } = outcome;
  bus.announce(sessionId, outcome.eventSeq);
  if (outcome.notify) bus.requestCancel(runId);
  deps.lookAfterChildren?.();
  if (outcome.hasEnded) log('info', { event: 'run_ended', runId, sessionId, status });
  // Recovering an interrupted step is short, so its job does not wait behind whole steps.
  if (outcome.job !== null) await dispatchJob(deps, outcome.job, { isFirst: !outcome.hasEnded });
}

type Changed = Readonly<{
  /** Seq of the session's last event, the change's own included. */
  eventSeq: number;
  /** Job of the run that goes on or starts; null: none. */
  job: JobPayload | null;
}>;

/** After the commit of any other change: tells the session's readers and adds the job. */
export async function afterChanged(deps: AfterDeps, sessionId: string, { eventSeq, job }: Changed): Promise<void> {
  deps.bus.announce(sessionId, eventSeq);
  if (job !== null) await dispatchJob(deps, job);
}

/** After the commit of an answer: tells the readers of the session and of its root, and adds the job of the run. */
export async function afterAnswered(deps: AfterDeps, answered: AnsweredCall): Promise<void> {
  const { root } = answered;
  if (root !== null) deps.bus.announce(root.sessionId, root.eventSeq);
  deps.lookAfterChildren?.();
  await afterChanged(deps, answered.sessionId, answered);
}
