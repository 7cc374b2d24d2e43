import type { OpenAPIHono } from '@hono/zod-openapi';
import type { Context, Hono } from 'hono';
import type { RequestIdVariables } from 'hono/request-id';
import type { AgentCatalogue } from '../agents/agent.ts';
import type { ModelCheck } from '../agents/configured-models.ts';
import type { Caller } from '../domain/access.ts';
import type { InboxLimits } from '../domain/inbox-limits.ts';
import type { LiveBus } from '../events/live-bus.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { DescribeModel } from '../model/describe-model.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Readiness } from '../runtime/health.ts';
import type { Log } from '../runtime/log.ts';
import type { ModelPort } from '../step/model-port.ts';
import type { Db } from '../store/database.ts';
import type { TenantQuota } from '../store/quota.ts';
import type { WorkersByKind } from '../store/workers.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';
import type { HeldLimits } from './held-open.ts';
import type { RequestRate } from './request-rate.ts';
import type { WrongKeys } from './wrong-keys.ts';

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

/** What the server tells the app about itself with every request; absent where the app is called without a server. */
export type ServerBindings = Readonly<{
  /** Aborted when the server stops: whatever holds a response open ends it. */
  shutdown?: AbortSignal;
  /** Names besides the loopback ones that requests may be addressed to; null: any, but where no key is needed none. */
  allowedHosts?: readonly string[] | null;
  /** Whether only this machine reaches the server. */
  onLoopback?: boolean;
  /** Whether everybody may do everything as long as there is no API key. */
  openWithoutKeys?: boolean;
  /** Of the other end of the connection, which may be a proxy. */
  remoteAddress?: string;
  /** Aborted when the response to this request is complete, or its connection is gone. */
  closed?: AbortSignal;
}>;

/**
 * What is known of a request once it was let in. `denied` is aborted when its caller would not be let in any more; absent
 * where anybody is.
 */
type AccessVariables = { caller: Caller; denied?: AbortSignal };

/** A large body, once it was parsed. */
type BodyVariables = { largeBody?: unknown };

export type HttpEnv = { Bindings: ServerBindings; Variables: RequestIdVariables & AccessVariables & BodyVariables };
export type BatonApp = OpenAPIHono<HttpEnv>;

/** The tenant whose data the request is about: every query is for this one alone. */
export function tenantOf(c: Context<HttpEnv>): string {
  return c.get('caller').tenantId;
}
