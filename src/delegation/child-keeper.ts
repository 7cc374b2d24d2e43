import { setTimeout as delay } from 'node:timers/promises';
import { enqueue } from '../claims/enqueue-next.ts';
import { BatonError } from '../domain/errors.ts';
import { type ChildDuty, dutyOf } from '../domain/run/child.ts';
import { SWEEP_INTERVAL_MS } from '../domain/tunables.ts';
import { toSafeError } from '../platform/log.ts';
import { requestCancel } from '../store/cancels.ts';
import { type Child, readChild, settleChild, settleChildren, takeDueChildren } from '../store/children.ts';
import { cancelChildless, cancelWaiting } from '../store/tree-cancels.ts';
import { beginChild } from './begin-child.ts';
import type { DelegationDeps } from './deps.ts';
import { deliverResult, tellAsks, tellBegun } from './tell-parent.ts';

/**
 * Children that are taken at once: enough for a wide tree. Their workers all hear of a cancel after one commit, and
 * none writes an end while others still go on.
 */
const LOOK_LIMIT = 128;

/** Children that are looked after at the same time. Each needs a transaction. */
const AT_ONCE = 4;

export type ChildKeeper = AsyncDisposable &
  Readonly<{
    /**
     * Looks for due work at once, because a commit may have made work due. A request during a look leads to another
     * look.
     */
    look: () => void;
    /** Resolves when no work is due that this process could see. */
    settled: () => Promise<void>;
  }>;

/**
 * Does the work that is due for children: begins them, tells their parents, delivers their results, and cancels those
 * whose parent no longer waits. Each piece of work is stored in Postgres first, so the process may die at any point,
 * and several processes may do this at the same time.
 */
export function createChildKeeper(deps: DelegationDeps): ChildKeeper {
  const stop = new AbortController();
  let looking: Promise<void> | null = null;
  let isWanted = false;
  const look = (): void => {
    if (stop.signal.aborted) return;
    isWanted = looking !== null;
    looking ??= lookAfterAll(deps, stop.signal).finally(() => {
      looking = null;
      if (isWanted) look();
    });
  };
  return {
    look,
    async settled() {
      while (looking !== null) await looking;
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await looking;
    },
  };
}

/** Looks once a second for work that other processes have left undone. */
export function keepLooking({ look }: Pick<ChildKeeper, 'look'>, intervalMs: number = SWEEP_INTERVAL_MS): Disposable {
  const stop = new AbortController();
  void (async () => {
    while (!stop.signal.aborted) {
      // Jitter, so that the processes do not all look at once.
      const pauseMs = intervalMs * (0.75 + Math.random() / 2);
      await delay(pauseMs, undefined, { signal: stop.signal }).catch(() => undefined);
      if (!stop.signal.aborted) look();
    }
  })();
  return { [Symbol.dispose]: () => stop.abort() };
}

/** Looks again until no work is due, because each piece of work makes the next one due in the same tree. */
async function lookAfterAll(deps: DelegationDeps, signal: AbortSignal): Promise<void> {
  try {
    while (!signal.aborted) {
      const due = await takeDueChildren(deps.db, LOOK_LIMIT);
      if (due.length === 0) return;
      const waiting = (await stopTogether(deps, due)).values();
      const lane = async (): Promise<void> => {
        for (const child of waiting) if (!signal.aborted) await lookAfterOne(deps, child, signal);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, lane));
    }
  } catch (error) {
    deps.log('warn', { event: 'children_failed', error: toSafeError(error) });
  }
}

/**
 * Stops the working children that have none of their own, and the waiting ones, each group in a few round trips.
 * @returns the others
 */
async function stopTogether(deps: DelegationDeps, due: readonly Child[]): Promise<readonly Child[]> {
  const stopping = due.filter((child) => dutyOf(child) === 'stop');
  if (stopping.length < 2) return due;
  const runIds = stopping.map(({ runId }) => runId);
  const done = await Promise.all([stopChildless(deps, runIds), stopWaiting(deps, runIds)]);
  const stopped = new Set(done.flat());
  await settleChildren(
    deps.db,
    stopping.filter(({ runId }) => stopped.has(runId)),
  );
  return due.filter(({ runId }) => !stopped.has(runId));
}

/** @returns the ids of the runs that it stopped */
async function stopChildless({ db, bus }: DelegationDeps, runIds: readonly string[]): Promise<string[]> {
  const cancelled = await cancelChildless(db, runIds);
  for (const { runId, sessionId, eventSeq } of cancelled) {
    bus.requestCancel(runId);
    bus.announce(sessionId, eventSeq);
  }
  return cancelled.map(({ runId }) => runId);
}

/** @returns the ids of the runs that it ended */
async function stopWaiting(deps: DelegationDeps, runIds: readonly string[]): Promise<string[]> {
  const ended = await cancelWaiting(deps.db, runIds);
  for (const { sessionId, eventSeq } of ended) deps.bus.announce(sessionId, eventSeq);
  const jobs = ended.flatMap(({ job }) => (job === null ? [] : [job]));
  if (jobs.length > 0) await enqueue(deps, jobs);
  return ended.map(({ runId }) => runId);
}

/** A child that fails stays due, and the others are still looked after. */
async function lookAfterOne(deps: DelegationDeps, taken: Child, signal: AbortSignal): Promise<void> {
  try {
    await lookAfter(deps, taken, signal);
  } catch (error) {
    deps.log('warn', { event: 'children_failed', error: toSafeError(error) });
  }
}

/**
 * Does the duties of a child, each once: a duty that is still due afterwards waits for a change from elsewhere. After a
 * stop it does no more: the end of the stopped run makes its own work due, and the cancel first has to reach the bottom
 * of the tree.
 */
export async function lookAfter(deps: DelegationDeps, taken: Child, signal: AbortSignal): Promise<void> {
  const done = new Set<ChildDuty>();
  let child: Child | null = taken;
  while (child !== null) {
    const duty = dutyOf(child);
    if (duty === null || done.has(duty)) break;
    done.add(duty);
    await DUTIES[duty](deps, child, signal);
    child = duty === 'stop' ? null : await readChild(deps.db, child);
  }
  await settleChild(deps.db, taken);
}

type Duty = (deps: DelegationDeps, child: Child, signal: AbortSignal) => Promise<void>;

const DUTIES: Readonly<Record<ChildDuty, Duty>> = {
  begin: beginChild,
  tell: tellBegun,
  ask: tellAsks,
  stop: stopChild,
  deliver: deliverResult,
};

/** Cancels the run, whose own children are then due to stop. */
async function stopChild(deps: DelegationDeps, { tenantId, runId }: Child): Promise<void> {
  try {
    const cancelled = await requestCancel(deps.db, tenantId, runId);
    deps.bus.announce(cancelled.sessionId, cancelled.eventSeq);
    if (cancelled.notify) deps.bus.requestCancel(runId);
    if (cancelled.job !== null) await enqueue(deps, [cancelled.job], { isFirst: !cancelled.hasEnded });
  } catch (error) {
    // The child's session was deleted.
    if (!(error instanceof BatonError) || error.code !== 'not_found') throw error;
  }
}
