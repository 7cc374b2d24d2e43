import type { LiveBus } from '../events/live-bus.ts';
import type { Log } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Db } from '../store/database.ts';
import type { ClaimKeeper } from './claim-keeper.ts';
import type { ViewCache } from './view-cache.ts';

/** What every job needs of the world. */
export type JobDeps = Readonly<{
  db: Db;
  jobs: JobQueues;
  bus: LiveBus;
  log: Log;
  claims: ClaimKeeper;
  views: ViewCache;
  newId: () => string;
  workerId: string;
  /** Runs of one tenant that may be claimed at the same time, over all workers; 0, the default: any number. */
  tenantConcurrency?: number;
}>;
