import { isTerminalRun } from '../domain/run/run.ts';
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
  const polls = pollTogether(runId, deps.pollIntervalMs ?? POLL_INTERVAL_MS);
  using _subscription = await deps.bus.onSession(sessionId, mailbox.listener);
  // Whoever has just subscribed may have missed what a look under way does not see.
  for (let isAlone = true; !mailbox.isClosed(); isAlone = false) {
    const { committedSeq, reread } = mailbox.take();
    const reason = committedSeq > 0 ? `event ${committedSeq}` : `poll ${polls.no()}`;
    const look = (): Promise<RunRow> => findRun(deps.db, tenantId, runId);
    try {
      const run = await (isAlone || reread ? look() : share(deps.db, `${tenantId} ${runId} ${reason}`, look));
      onSeen(run);
      if (isSettled(run)) return;
    } catch (error) {
      deps.onError?.(error);
    }
    await mailbox.wait(polls.nextInMs());
  }
}

const underWay = new WeakMap<Db, Map<string, Promise<RunRow>>>();

/**
 * Those who wait for one run and look for the same reason share one query: it began after what they were told of. A
 * thousand of them would otherwise be a thousand queries, before those of everybody else.
 */
function share(db: Db, what: string, look: () => Promise<RunRow>): Promise<RunRow> {
  const looks = underWay.get(db) ?? new Map<string, Promise<RunRow>>();
  underWay.set(db, looks);
  const known = looks.get(what);
  if (known !== undefined) return known;
  const looking = look().finally(() => looks.delete(what));
  looks.set(what, looking);
  return looking;
}

/** All who wait for a run poll at the same moments; those of different runs at different ones. */
function pollTogether(runId: string, intervalMs: number): Readonly<{ no: () => number; nextInMs: () => number }> {
  const offsetMs = Number.parseInt(runId.slice(-6), 16) % intervalMs;
  const sinceMs = (): number => performance.now() + offsetMs;
  return {
    no: () => Math.floor(sinceMs() / intervalMs),
    // Timers may be early by a fraction: the next poll is not to fall into this interval.
    nextInMs: () => Math.ceil(intervalMs - (sinceMs() % intervalMs)) + 1,
  };
}

const isSettled = (run: RunRow): boolean => isTerminalRun(run.status) || run.status === 'requires_action';
