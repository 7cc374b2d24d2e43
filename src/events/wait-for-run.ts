import { isTerminalRun } from '../domain/run/run.ts';
import type { Db } from '../store/database.ts';
import { findRun, type RunRow } from '../store/runs.ts';
import type { LiveBus } from './live-bus.ts';
import { createStreamMailbox, type StreamMailbox } from './stream-mailbox.ts';

/** Longest delay in noticing the end of a run if the bus loses all news. */
const POLL_INTERVAL_MS = 1_000;

export type RunWaitDeps = Readonly<{
  db: Db;
  bus: LiveBus;
  /** Called for failed reads, which are tried again. */
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
 * Waits until the run has ended or requires an action. At the timeout, or when `signal` aborts, it resolves with the
 * run as last seen.
 * @throws BatonError `not_found`; the error of the database if the first read fails
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
  // The first look is not shared: one that began before the subscription may miss its news.
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
 * Callers that heard the same news of a run share a query, which began afterwards. A thousand of them would otherwise
 * delay all other queries.
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

/** Callers that wait for the same run poll together. Other runs poll at other times. */
function pollTogether(runId: string, intervalMs: number): Readonly<{ no: () => number; nextInMs: () => number }> {
  const offsetMs = Number.parseInt(runId.slice(-6), 16) % intervalMs;
  const sinceMs = (): number => performance.now() + offsetMs;
  return {
    no: () => Math.floor(sinceMs() / intervalMs),
    // A timer may fire slightly early, and the next poll must not fall into this interval.
    nextInMs: () => Math.ceil(intervalMs - (sinceMs() % intervalMs)) + 1,
  };
}

const isSettled = (run: RunRow): boolean => isTerminalRun(run.status) || run.status === 'requires_action';
