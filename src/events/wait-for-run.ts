import { isTerminalRun } from '../domain/run.ts';
import type { Db } from '../store/database.ts';
import { findRun, type RunRow } from '../store/runs.ts';
import type { LiveBus } from './live-bus.ts';
import { createStreamMailbox, type StreamMailbox } from './stream-mailbox.ts';

/** How late the end of a run is noticed at worst when the bus loses everything. */
const POLL_INTERVAL_MS = 1_000;

export type RunWaitDeps = Readonly<{
  db: Db;
  bus: LiveBus;
  /** Told of failed reads that are tried again. */
  onError?: (error: unknown) => void;
  pollIntervalMs?: number;
}>;

export type RunWaitRequest = Readonly<{
  tenantId: string;
  runId: string;
  timeoutMs: number;
  signal: AbortSignal;
}>;

/**
 * Waits until the run has ended or needs somebody. At the timeout, and when `signal` aborts, it resolves with the run
 * as it was last seen: whoever waits looks at its status.
 * @throws BatonError `not_found`; the error of the database when even the first read fails
 */
export async function waitForRun(deps: RunWaitDeps, request: RunWaitRequest): Promise<RunRow> {
  const { tenantId, runId, signal } = request;
  const deadline = performance.now() + request.timeoutMs;
  let run = await findRun(deps.db, tenantId, runId);
  if (isSettled(run) || request.timeoutMs <= 0 || signal.aborted) return run;

  using mailbox = createStreamMailbox();
  const stop = (): void => mailbox[Symbol.dispose]();
  const timer = setTimeout(stop, Math.max(0, deadline - performance.now()));
  signal.addEventListener('abort', stop, { once: true });
  const watching = watch(deps, request, run.session_id, mailbox, (seen) => {
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
  { tenantId, runId }: RunWaitRequest,
  sessionId: string,
  mailbox: StreamMailbox,
  onSeen: (run: RunRow) => void,
): Promise<void> {
  using _subscription = await deps.bus.onSession(sessionId, mailbox.listener);
  while (!mailbox.isClosed()) {
    mailbox.take();
    try {
      const run = await findRun(deps.db, tenantId, runId);
      onSeen(run);
      if (isSettled(run)) return;
    } catch (error) {
      deps.onError?.(error);
    }
    await mailbox.wait(deps.pollIntervalMs ?? POLL_INTERVAL_MS);
  }
}

const isSettled = (run: RunRow): boolean => isTerminalRun(run.status) || run.status === 'requires_action';
