import { DISPATCH_INTERVAL_MS } from '../domain/tunables.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import { dispatchDeliveries } from '../store/around/webhook-deliveries.ts';
import type { Db } from '../store/db/database.ts';

export type Dispatcher = AsyncDisposable &
  Readonly<{
    /** Looks at once, because a place at an endpoint is free. Looks that are asked for during one follow it as one. */
    look: () => void;
  }>;

/** `slots`: deliveries that each worker sends at the same time. */
type DispatcherDeps = Readonly<{ db: Db; jobs: Pick<JobQueues, 'deliveries'>; log: Log; slots: number }>;

/**
 * Gives deliveries that are due to the queue. It is the only way there, for new ones, for later attempts and for those
 * of dead workers: so the queue may be emptied at any moment, and nothing is given to it by two paths.
 */
export function startDispatcher(
  { db, jobs, log, slots }: DispatcherDeps,
  intervalMs: number = DISPATCH_INTERVAL_MS,
): Dispatcher {
  let stopped = false;
  let looking: Promise<void> | null = null;
  let isWanted = false;
  const dispatch = async (): Promise<void> => {
    try {
      const due = await dispatchDeliveries(db, slots);
      if (due.length > 0) await jobs.deliveries.add(due);
    } catch (error) {
      log('warn', { event: 'webhook_dispatch_failed', error: toSafeError(error) });
    }
  };
  const look = (): void => {
    if (stopped) return;
    isWanted = looking !== null;
    looking ??= dispatch().finally(() => {
      looking = null;
      if (isWanted) look();
    });
  };
  const timer = setInterval(look, intervalMs);
  return {
    look,
    async [Symbol.asyncDispose]() {
      stopped = true;
      clearInterval(timer);
      await looking;
    },
  };
}
