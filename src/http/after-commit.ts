import { setTimeout as delay } from 'node:timers/promises';
import type { JobPayload } from '../domain/run/job.ts';
import { toSafeError } from '../platform/log.ts';
import type { AddOptions } from '../queues/job-queue.ts';
import type { CancelOutcome } from '../store/cancels.ts';
import type { AcceptedMessage } from '../store/inbox.ts';
import type { HttpDeps } from './http-deps.ts';

/** A queue that takes longer does not hold up callers: their message is in Postgres already. */
const QUEUE_PATIENCE_MS = 1_000;

/**
 * Hands a committed job to the queue. Never rejects: a job that is lost here is added again from the run's row, so the
 * caller's request has succeeded whatever the queue says.
 */
async function dispatchJob({ jobs, log }: HttpDeps, job: JobPayload, options?: AddOptions): Promise<void> {
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

/** After the commit of a message: wakes the session's readers, the worker that it interrupts, and the queue of its run. */
export async function afterAccepted(deps: HttpDeps, sessionId: string, accepted: AcceptedMessage): Promise<void> {
  deps.bus.announce(sessionId, accepted.eventSeq);
  if (accepted.cancelled !== null) await afterCancelled(deps, accepted.cancelled);
  if (accepted.job !== null) await dispatchJob(deps, accepted.job);
}

/** After the commit of a cancel: wakes the session's readers, the worker of the run, and the queue of what follows. */
export async function afterCancelled(deps: HttpDeps, outcome: CancelOutcome): Promise<void> {
  const { bus, log } = deps;
  const { runId, sessionId, status } = outcome;
  bus.announce(sessionId, outcome.eventSeq);
  if (outcome.notify) bus.requestCancel(runId);
  if (outcome.hasEnded) log('info', { event: 'run_ended', runId, sessionId, status });
  // To settle an interrupted step takes a moment: it does not wait behind whole steps.
  if (outcome.job !== null) await dispatchJob(deps, outcome.job, { isFirst: !outcome.hasEnded });
}

/** A committed change of a session. */
type Changed = Readonly<{
  /** The session's last event after this. */
  eventSeq: number;
  /** Of the run that goes on or begins with it. */
  job: JobPayload | null;
}>;

/** After the commit of any other change: wakes the session's readers and the queue of its run. */
export async function afterChanged(deps: HttpDeps, sessionId: string, { eventSeq, job }: Changed): Promise<void> {
  deps.bus.announce(sessionId, eventSeq);
  if (job !== null) await dispatchJob(deps, job);
}
