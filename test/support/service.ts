import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { inject } from 'vitest';
import { type Simulator, startSimulator } from '../../simulator/server.ts';
import { type Agent, agentSchema, agentVersion } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { type Dependencies, openDependencies } from '../../src/app/dependencies.ts';
import { type JobWorker, startJobWorker } from '../../src/app/job-worker.ts';
import { serviceActor } from '../../src/commands/audit.ts';
import { cancelRun } from '../../src/commands/cancel.ts';
import { maintainSession } from '../../src/commands/maintain-session.ts';
import { type SentMessage, sendMessage } from '../../src/commands/send-message.ts';
import type { RunLimits } from '../../src/domain/run/run-limits.ts';
import type { UserPart } from '../../src/domain/transcript/message.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import type { CancelOutcome } from '../../src/store/changes/cancels.ts';
import type { RequestedMaintenance } from '../../src/store/changes/maintenance.ts';
import { findRun, type RunRow } from '../../src/store/session/runs.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import type { Tool } from '../../src/tools/tool.ts';
import type { Backend } from './backends.ts';
import { eventually } from './eventually.ts';
import { createTestDatabase } from './postgres.ts';

export type TestService = AsyncDisposable &
  Readonly<{
    deps: Dependencies;
    simulator: Simulator;
    logged: readonly LogEvent[];
    /** Those of `logged` at the level `warn`. */
    warned: readonly LogEvent[];
    environment: Readonly<Record<string, string>>;
    startWorker: () => Promise<JobWorker>;
    createSession: (agent?: Partial<Agent>) => Promise<string>;
    send: (sessionId: string, text: string, options?: RunLimits) => Promise<SentMessage>;
    /** The same with files, or as another tenant. */
    sendParts: (sessionId: string, content: readonly UserPart[], tenantId?: string) => Promise<SentMessage>;
    cancel: (runId: string) => Promise<CancelOutcome>;
    maintain: (sessionId: string, kind: 'compaction' | 'prune') => Promise<RequestedMaintenance>;
    ended: (runId: string) => Promise<RunRow>;
  }>;

export type TestServiceOptions = Readonly<{
  backend: Backend;
  tools?: readonly Tool[];
  /** Beside the agent `tester`. */
  agents?: readonly Partial<Agent>[];
  environment?: Readonly<Record<string, string>>;
  /** Time for an MCP server to list its tools to a fire or a child. Absent: that of the product. */
  pinWithinMs?: number;
}>;

/** The service in this process on its own database, queue prefix and simulated provider; no worker runs yet. */
export async function startTestService(options: TestServiceOptions): Promise<TestService> {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await createTestDatabase());
  const simulator = stack.use(await startSimulator());
  const prefix = `baton-test-${randomBytes(6).toString('hex')}`;
  const redisUrl = options.backend === 'redis' ? inject('redisUrl') : null;
  if (redisUrl !== null) stack.defer(() => removeKeys(redisUrl, prefix));
  const environment = {
    DATABASE_URL: database.connectionString,
    ...(redisUrl === null ? {} : { REDIS_URL: redisUrl }),
    BATON_QUEUE_PREFIX: prefix,
    BATON_SIMULATOR_URL: simulator.url,
    ...options.environment,
  };
  const logged: LogEvent[] = [];
  const warned: LogEvent[] = [];
  const agent = agentSchema.parse({ name: 'tester', model: 'simulated/test' });
  const deps = stack.use(
    await openDependencies(loadConfig(environment), {
      migrate: false,
      log: (level, event) => {
        logged.push(event);
        if (level === 'warn') warned.push(event);
      },
      agents: createCatalogue([agent, ...(options.agents ?? []).map((given) => agentSchema.parse(given))]),
      toolSets: { test: options.tools ?? [] },
      ...(options.pinWithinMs !== undefined && { pinWithinMs: options.pinWithinMs }),
    }),
  );
  const workers = stack.use(new AsyncDisposableStack());
  const owned = stack.move();
  return {
    deps,
    simulator,
    logged,
    warned,
    environment,
    startWorker: async () => workers.use(await startJobWorker(deps)),
    createSession: (changes) => createSession(deps, { ...agent, tools: ['test'], ...changes }),
    send: (sessionId, text, limits) => send(deps, sessionId, [{ type: 'text', text }], { limits: limits ?? {} }),
    sendParts: (sessionId, content, tenantId) => send(deps, sessionId, content, { tenantId }),
    cancel: (runId) => cancelRun(deps, { actor: serviceActor('default'), runId }),
    maintain: (sessionId, kind) => maintainSession(deps, { actor: serviceActor('default'), sessionId, kind }),
    ended: (runId) =>
      eventually(async () => {
        const run = await findRun(deps.db, 'default', runId);
        return ['completed', 'failed', 'cancelled', 'incomplete'].includes(run.status) ? run : null;
      }, `run ${runId} ends`),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function createSession(deps: Dependencies, agent: Agent): Promise<string> {
  const id = deps.newId();
  await insertSession(deps.db, {
    id,
    tenantId: 'default',
    agentName: agent.name,
    agentVersion: agentVersion(agent),
    agentSnapshot: await deps.pinTools(agent, new AbortController().signal),
    title: null,
    metadata: {},
  });
  return id;
}

/** Sends a message as the tenant's own program. */
async function send(
  deps: Dependencies,
  sessionId: string,
  content: readonly UserPart[],
  { limits = {}, tenantId = 'default' }: Readonly<{ limits?: RunLimits; tenantId?: string | undefined }>,
) {
  const actor = serviceActor(tenantId);
  return sendMessage(deps, { actor, sessionId, messageId: deps.newId(), content, delivery: 'steer', limits });
}

async function removeKeys(redisUrl: string, prefix: string): Promise<void> {
  const redis = new Redis(redisUrl);
  try {
    const keys = await redis.keys(`${prefix}*`);
    if (keys.length > 0) await redis.del(...keys);
  } finally {
    redis.disconnect();
  }
}
