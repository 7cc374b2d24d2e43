import { setTimeout as delay } from 'node:timers/promises';
import { SWEEP_INTERVAL_MS } from '../domain/tunables.ts';
import { toSafeError } from '../platform/log.ts';
import { findDueSchedules, type ScheduleRow } from '../store/schedules.ts';
import { type FireDeps, fireDue } from './fire.ts';

/** Schedules of one look, and how many fire at the same time: each has a transaction. */
const LOOK_LIMIT = 200;
const AT_ONCE = 4;

export type Scheduler = AsyncDisposable & Readonly<{ look: () => Promise<void> }>;

/** Fires schedules that are due, in any number of processes at the same time. */
export function startScheduler(deps: FireDeps, intervalMs: number = SWEEP_INTERVAL_MS): Scheduler {
  const stop = new AbortController();
  const look = async (): Promise<void> => {
    try {
      const due = Iterator.from(await findDueSchedules(deps.db, LOOK_LIMIT));
      const lane = async (): Promise<void> => {
        for (const schedule of due) if (!stop.signal.aborted) await fireOne(deps, schedule, stop.signal);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, lane));
    } catch (error) {
      deps.log('warn', { event: 'schedules_failed', error: toSafeError(error) });
    }
  };
  const keepLooking = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      // Jitter, so that the processes do not all look at once.
      const pauseMs = intervalMs * (0.75 + Math.random() / 2);
      await delay(pauseMs, undefined, { signal: stop.signal }).catch(() => undefined);
      if (!stop.signal.aborted) await look();
    }
  };
  const looking = keepLooking();
  return {
    look,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await looking;
    },
  };
}

/** One that fails stays due, and the others still fire. */
async function fireOne(deps: FireDeps, schedule: ScheduleRow, signal: AbortSignal): Promise<void> {
  try {
    await fireDue(deps, schedule, signal);
  } catch (error) {
    deps.log('warn', { event: 'schedules_failed', error: toSafeError(error) });
  }
}
