import type { LiveBus } from '../events/live-bus.ts';
import type { Log } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Db } from '../store/database.ts';
import type { ClaimKeeper } from './claim-keeper.ts';
import type { ViewCache } from './view-cache.ts';

export type JobDeps = Readonly<{
  db: Db;
  jobs: JobQueues;
  bus: LiveBus;
  log: Log;
  claims: ClaimKeeper;
  views: ViewCache;
  newId: () => string;
  workerId: string;
  /** The slots of one tenant over all workers: claimed runs at a time. Default 0: no limit. */
  tenantConcurrency?: number;
}>;
