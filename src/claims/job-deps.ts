import type { FailurePorts } from '../commands/after-commit.ts';
import type { CarriedSteps } from './carried-steps.ts';
import type { ClaimKeeper } from './claim-keeper.ts';
import type { MissingCode } from './missing-code.ts';
import type { TenantsAtWork } from './tenants-at-work.ts';
import type { ViewCache } from './view-cache.ts';

export type JobDeps = FailurePorts &
  Readonly<{
    claims: ClaimKeeper;
    views: ViewCache;
    /** Absent: every step goes through the queue. */
    carried?: CarriedSteps;
    /** Absent: nothing asks which tenants have the slots. */
    atWork?: TenantsAtWork;
    newId: () => string;
    workerId: string;
    /** The slots of one tenant over all workers: claimed runs at a time. Default 0: no limit. */
    tenantConcurrency?: number;
    /** The tools in code that this worker has, by the names that sessions keep. Default: none. */
    code?: readonly string[];
    missingCode?: MissingCode;
  }>;
