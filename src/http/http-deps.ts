import type { OpenAPIHono } from '@hono/zod-openapi';
import type { RequestIdVariables } from 'hono/request-id';
import type { AgentCatalogue } from '../agents/agent.ts';
import type { ModelEntry } from '../domain/context/model-registry.ts';
import type { LiveBus } from '../events/live-bus.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Log } from '../runtime/log.ts';
import type { ModelPort } from '../step/model-port.ts';
import type { Db } from '../store/database.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';

export type Readiness = Readonly<{
  ready: boolean;
  checks: Readonly<Record<string, Readonly<{ ok: boolean; message?: string }>>>;
}>;

export type HttpDeps = Readonly<{
  db: Db;
  jobs: JobQueues;
  bus: LiveBus;
  agents: AgentCatalogue;
  models: ModelPort;
  modelRegistry: readonly ModelEntry[];
  toolsOf: ToolCatalogue;
  log: Log;
  readiness: () => Promise<Readiness>;
  /** A fresh UUIDv7. */
  newId: () => string;
}>;

/** What the server tells the app about itself with every request; absent where the app is called without a server. */
export type ServerBindings = Readonly<{
  /** Aborted when the server stops: whatever holds a response open ends it. */
  shutdown?: AbortSignal;
  /** Host names that requests may be addressed to; null: any. */
  allowedHosts?: readonly string[] | null;
}>;

export type HttpEnv = { Bindings: ServerBindings; Variables: RequestIdVariables };
export type BatonApp = OpenAPIHono<HttpEnv>;

/** The tenant of every request, as long as there are no API keys that name another. */
export const TENANT_ID = 'default';
