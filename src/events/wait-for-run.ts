import { isTerminalRun } from '../domain/run/run.ts';
import { shareReads } from '../platform/share-reads.ts';
import type { Db } from '../store/db/database.ts';
import { type AskingRun, findAskingRun } from '../store/session/asking-runs.ts';
import type { LiveBus } from './live-bus.ts';
import { createStreamMailbox, type StreamMailbox } from './stream-mailbox.ts';

/** A thousand callers that begin to wait for one run, or hear its news, would otherwise hold up all other queries. */
const lookAtRun = shareReads(
  (db: Db, { tenantId, runId }: Readonly<{ tenantId: string; runId: string }>) => findAskingRun(db, tenantId, runId),
  ({ tenantId, runId }) => `${tenantId} ${runId}`,
);

/** Longest delay in noticing the end of a run if the bus loses all news. */
const POLL_INTERVAL_MS = 1_000;

export type RunWaitDeps = Readonly<{
  db: Db;
  bus: LiveBus;
  /** Called for failed reads, which are tried again. */
  onError?: (error: unknown) => void;
  /** Called each time the run has been looked at and its news is awaited. */
  onWaiting?: (() => void) | undefined;
  pollIntervalMs?: number;
}>;

export type RunWaitRequest = Readonly<{
  tenantId: string;
  runId: string;
  timeoutMs: number;
  signal: AbortSignal;
}>;

/**
 * Waits until the run has ended or requires an action. At the timeout, or when `signal` aborts, it resolves with the
 * run as last seen.
 * @throws BatonError `not_found`; the error of the database if the first read fails
 */
export async function waitForRun(deps: RunWaitDeps, request: RunWaitRequest): Promise<AskingRun> {
  const { signal } = request;
  const deadline = performance.now() + request.timeoutMs;
  let run = await lookAtRun(deps.db, request);
  if (isSettled(run) || request.timeoutMs <= 0 || signal.aborted) return run;

  using mailbox = createStreamMailbox();
  const stop = (): void => mailbox[Symbol.dispose]();
  const timer = setTimeout(stop, Math.max(0, deadline - performance.now()));
  signal.addEventListener('abort', stop, { once: true });
  const watching = watch(deps, request, { sessionId: run.session_id, mailbox }, (seen) => {
    run = seen;
  });
  try {
    await Promise.race([watching, mailbox.closed]);
    return run;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}

async function watch(
  deps: RunWaitDeps,
  request: RunWaitRequest,
  { sessionId, mailbox }: Readonly<{ sessionId: string; mailbox: StreamMailbox }>,
  onSeen: (run: AskingRun) => void,
): Promise<void> {
  const nextPollInMs = pollTogether(request.runId, deps.pollIntervalMs ?? POLL_INTERVAL_MS);
  // A preview says nothing of the run's status.
  const listener = { ...mailbox.listener, onPreview: () => undefined };
  using _subscription = await deps.bus.onSession(sessionId, listener);
  // The first look is for news from before the subscription.
  while (!mailbox.isClosed()) {
    mailbox.take();
    try {
      const run = await lookAtRun(deps.db, request);
      onSeen(run);
      if (isSettled(run)) return;
    } catch (error) {
      deps.onError?.(error);
    }
    deps.onWaiting?.();
    await mailbox.wait(nextPollInMs());
  }
}

/** Callers that wait for the same run poll together. Other runs poll at other times. */
function pollTogether(runId: string, intervalMs: number): () => number {
  const offsetMs = Number.parseInt(runId.slice(-6), 16) % intervalMs;
  // A timer may fire slightly early, and the next poll must not fall into this interval.
  return () => Math.ceil(intervalMs - ((performance.now() + offsetMs) % intervalMs)) + 1;
}

const isSettled = (run: AskingRun): boolean => isTerminalRun(run.status) || run.status === 'requires_action';
