import type { AgentCatalogue } from '../agents/agent.ts';
import type { InboxLimits } from '../domain/run/inbox-limits.ts';
import type { LiveBus } from '../events/live-bus.ts';
import type { ModelCheck } from '../model/configured-models.ts';
import type { FairLanes } from '../platform/fair-lanes.ts';
import type { Log } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Db } from '../store/db/database.ts';
import type { TenantQuota } from '../store/session/quota.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';

/** The lanes in which children of several tenants wait for MCP servers, and those in which they use the database. */
export type ChildLanes = Readonly<{ pins: FairLanes; work: FairLanes }>;

export type DelegationDeps = Readonly<{
  db: Db;
  jobs: JobQueues;
  bus: LiveBus;
  log: Log;
  agents: AgentCatalogue;
  modelCheck: ModelCheck;
  pinTools: McpServers['pin'];
  quota?: TenantQuota | undefined;
  inboxLimits?: InboxLimits | undefined;
}>;
