import type { Hono } from 'hono';
import type { AgentCatalogue } from '../agents/agent.ts';
import type { InboxLimits } from '../domain/run/inbox-limits.ts';
import type { LiveBus } from '../events/live-bus.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { ModelCheck } from '../model/configured-models.ts';
import type { DescribeModel } from '../model/describe-model.ts';
import type { ModelPort } from '../model/model-port.ts';
import type { Readiness } from '../platform/health.ts';
import type { Log } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Db } from '../store/database.ts';
import type { TenantQuota } from '../store/quota.ts';
import type { WorkersByKind } from '../store/workers.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';
import type { HeldLimits } from './middleware/held-open.ts';
import type { RequestRate } from './middleware/request-rate.ts';
import type { WrongKeys } from './middleware/wrong-keys.ts';

export type HttpDeps = Readonly<{
  db: Db;
  jobs: JobQueues;
  bus: LiveBus;
  agents: AgentCatalogue;
  models: ModelPort;
  describeModel: DescribeModel;
  modelCheck: ModelCheck;
  toolsOf: ToolCatalogue;
  /** The agent as a new session keeps it. @throws BatonError `tools_unavailable` */
  pinTools: McpServers['pin'];
  log: Log;
  readiness: () => Promise<Readiness>;
  /** How many workers take jobs of each kind; absent where the process does not look. */
  countWorkers?: () => Promise<WorkersByKind>;
  metrics: Pick<Metrics, 'http' | 'text'>;
  /** The page that shows the queues. */
  board?: Hono;
  /** What a tenant may use in a day, and have stored; absent: as much as it likes. */
  quota?: TenantQuota;
  /** Days after its last request in which a session expires that a completion without a name has begun; absent or 0: never. */
  completionKeptDays?: number;
  /** What may wait in the inbox of one session; absent: the defaults. */
  inboxLimits?: InboxLimits;
  /** Counts the requests of keys; absent: any number is let through. */
  requestRate?: RequestRate;
  /** How many streams and waits may be open at the same time; absent: any number. */
  heldLimits?: HeldLimits;
  /** Slows down whoever tries keys; absent: one of the app's own. */
  wrongKeys?: WrongKeys;
  /** The agent of conversations that name none; absent: the only one that there is. */
  defaultAgent?: string | undefined;
  /** A fresh UUIDv7. */
  newId: () => string;
}>;
