import { DISPATCH_INTERVAL_MS } from '../domain/tunables.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { type Looker, lookEvery } from '../platform/looker.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import { dispatchDeliveries } from '../store/around/webhook-deliveries.ts';
import type { Db } from '../store/db/database.ts';

/** `slots`: deliveries that each worker sends at the same time. */
type DispatcherDeps = Readonly<{ db: Db; jobs: Pick<JobQueues, 'deliveries'>; log: Log; slots: number }>;

/**
 * Gives deliveries that are due to the queue. It is the only way there, for new ones, for later attempts and for those
 * of dead workers: so the queue may be emptied at any moment, and nothing is given to it by two paths. It is asked for
 * a look when a place at an endpoint is free.
 */
export function startDispatcher(
  { db, jobs, log, slots }: DispatcherDeps,
  intervalMs: number = DISPATCH_INTERVAL_MS,
): Looker {
  const dispatch = async (): Promise<void> => {
    try {
      const due = await dispatchDeliveries(db, slots);
      if (due.length > 0) await jobs.deliveries.add(due);
    } catch (error) {
      log('warn', { event: 'webhook_dispatch_failed', error: toSafeError(error) });
    }
  };
  return lookEvery(intervalMs, dispatch);
}
