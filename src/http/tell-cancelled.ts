import type { CancelOutcome } from '../store/cancels.ts';
import type { HttpDeps } from './http-deps.ts';

/** After the commit: readers are told of the events, the worker that has the run of the request. */
export function tellCancelled({ bus, log }: Pick<HttpDeps, 'bus' | 'log'>, outcome: CancelOutcome): void {
  const { runId, sessionId, status } = outcome;
  bus.announce(sessionId, outcome.eventSeq);
  if (outcome.notify) bus.requestCancel(runId);
  if (outcome.hasEnded) log('info', { event: 'run_ended', runId, sessionId, status });
}
