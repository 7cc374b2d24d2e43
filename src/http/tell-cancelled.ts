import type { CancelOutcome } from '../store/cancels.ts';
import { dispatchJob } from './dispatch.ts';
import type { HttpDeps } from './http-deps.ts';

/**
 * After the commit: readers are told of the events, the worker that has the run of the request,
 * the queue of what follows.
 */
export async function tellCancelled(deps: HttpDeps, outcome: CancelOutcome): Promise<void> {
  const { bus, log } = deps;
  const { runId, sessionId, status } = outcome;
  bus.announce(sessionId, outcome.eventSeq);
  if (outcome.notify) bus.requestCancel(runId);
  if (outcome.hasEnded) log('info', { event: 'run_ended', runId, sessionId, status });
  // What is only to be settled is a moment's work: it does not wait behind whole steps.
  if (outcome.job !== null) await dispatchJob(deps, outcome.job, { isFirst: !outcome.hasEnded });
}
