import { setTimeout as delay } from 'node:timers/promises';
import { enqueue } from '../claims/enqueue-next.ts';
import { BatonError } from '../domain/errors.ts';
import { type ChildDuty, dutyOf } from '../domain/run/child.ts';
import { SWEEP_INTERVAL_MS } from '../domain/tunables.ts';
import { toSafeError } from '../platform/log.ts';
import { cancelChildless, requestCancel } from '../store/cancels.ts';
import { type Child, readChild, settleChild, settleChildren, takeDueChildren } from '../store/children.ts';
import { beginChild } from './begin-child.ts';
import type { DelegationDeps } from './deps.ts';
import { deliverResult, tellAsks, tellBegun } from './tell-parent.ts';

/** Children that are taken at once, and how many are looked after at the same time: each has a transaction. */
const LOOK_LIMIT = 64;
const AT_ONCE = 4;

export type ChildKeeper = AsyncDisposable &
  Readonly<{
    /** Looks at once, because a commit may have given children something to do. A look that is asked for during one follows it. */
    look: () => void;
    /** Resolves when nothing is due that this process could see. */
    settled: () => Promise<void>;
  }>;

/**
 * Does what is due for children, in any number of processes at the same time: begins them, tells their parents, delivers
 * their results, cancels those that nobody waits for. What it does is in Postgres before, so a process may die at any
 * point of it.
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

/** Looks once a second, for what other processes have left undone. */
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

/** To do one thing makes the next one due, in the same tree: so it looks again until nothing is. */
async function lookAfterAll(deps: DelegationDeps, signal: AbortSignal): Promise<void> {
  try {
    while (!signal.aborted) {
      const due = await takeDueChildren(deps.db, LOOK_LIMIT);
      if (due.length === 0) return;
      const waiting = (await stopWorking(deps, due)).values();
      const lane = async (): Promise<void> => {
        for (const child of waiting) if (!signal.aborted) await lookAfterOne(deps, child, signal);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, lane));
    }
  } catch (error) {
    deps.log('warn', { event: 'children_failed', error: toSafeError(error) });
  }
}

/** Stops those that work and have no children, all at once. @returns the others */
async function stopWorking(deps: DelegationDeps, due: readonly Child[]): Promise<readonly Child[]> {
  const stopping = due.filter((child) => dutyOf(child) === 'stop');
  if (stopping.length < 2) return due;
  const cancelled = await cancelChildless(
    deps.db,
    stopping.map(({ runId }) => runId),
  );
  for (const { runId, sessionId, eventSeq } of cancelled) {
    deps.bus.requestCancel(runId);
    deps.bus.announce(sessionId, eventSeq);
  }
  const stopped = new Set(cancelled.map(({ runId }) => runId));
  await settleChildren(
    deps.db,
    stopping.filter(({ runId }) => stopped.has(runId)),
  );
  return due.filter(({ runId }) => !stopped.has(runId));
}

/** One that fails stays due, and the others are still looked after. */
async function lookAfterOne(deps: DelegationDeps, taken: Child, signal: AbortSignal): Promise<void> {
  try {
    await lookAfter(deps, taken, signal);
  } catch (error) {
    deps.log('warn', { event: 'children_failed', error: toSafeError(error) });
  }
}

/**
 * Does one duty after another. One that is left as it was is done: its next state comes from elsewhere. What the end of
 * one that was stopped brings is due by itself, after all that shall stop: a cancel has to reach the bottom of the tree.
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
    // Its session was deleted.
    if (!(error instanceof BatonError) || error.code !== 'not_found') throw error;
  }
}
