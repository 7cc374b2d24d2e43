import type { LiveBus } from '../events/live-bus.ts';
import type { Log } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Db } from '../store/db/database.ts';
import type { CarriedSteps } from './carried-steps.ts';
import type { ClaimKeeper } from './claim-keeper.ts';
import type { MissingCode } from './missing-code.ts';
import type { TenantsAtWork } from './tenants-at-work.ts';
import type { ViewCache } from './view-cache.ts';

export type JobDeps = Readonly<{
  db: Db;
  jobs: JobQueues;
  bus: LiveBus;
  log: Log;
  claims: ClaimKeeper;
  views: ViewCache;
  /** Absent: every step goes through the queue. */
  carried?: CarriedSteps;
  /** Absent: nothing asks which tenants have the slots. */
  atWork?: TenantsAtWork;
  newId: () => string;
  workerId: string;
  /** Called after commits that may have begun, ended or stopped children. Absent: they are found within a second. */
  lookAfterChildren?: () => void;
  /** The slots of one tenant over all workers: claimed runs at a time. Default 0: no limit. */
  tenantConcurrency?: number;
  /** The tools in code that this worker has, by the names that sessions keep. Default: none. */
  code?: readonly string[];
  missingCode?: MissingCode;
}>;
