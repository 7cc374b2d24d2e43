import type { InboxLimits } from '../domain/run/inbox-limits.ts';
import type { LiveBus } from '../events/live-bus.ts';
import type { Log } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Db } from '../store/db/database.ts';
import type { TenantQuota } from '../store/session/quota.ts';

/**
 * The parts of the process that commands use. None is optional, so that no door can leave a limit or an effect out by
 * accident: a limit that is off is a value, `NO_QUOTA`.
 */
export type CommandPorts = Readonly<{
  db: Db;
  jobs: JobQueues;
  bus: LiveBus;
  log: Log;
  /** A fresh UUIDv7. */
  newId: () => string;
  /** Limits of a tenant's daily use and of its stored bytes. */
  quota: TenantQuota;
  /** Limits of the queued messages of a session. */
  inboxLimits: InboxLimits;
  /** Looks for due work of children. A process without a keeper of children leaves it to others, within a second. */
  lookAfterChildren: () => void;
}>;
