import { openApp } from '../app/api-server.ts';
import { type Dependencies, openDependencies } from '../app/dependencies.ts';
import { startJobWorker } from '../app/job-worker.ts';
import { type BatonClient, createClient } from '../client/client.ts';
import { DEFAULT_TENANT_ID, SCOPES } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import type { BatonApp, ServerBindings } from '../http/http-env.ts';
import { listenerOf } from '../http/server.ts';
import { configOf } from '../platform/config.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { createLog, logTo } from '../platform/log.ts';
import { urlOfPool } from '../platform/url-of-pool.ts';
import { checkGivenPool } from '../store/given-pool.ts';
import type { Baton, BatonOptions, WorkerOptions } from './contract.ts';
import { readDefinitions } from './define-agent.ts';
import { createSendIn } from './send-in.ts';

/** A name of the API for requests that never leave the process. */
const OWN_URL = 'http://baton.internal';

/** See `createBaton`. */
export async function openBaton(options: BatonOptions): Promise<Baton> {
  const {
    agents,
    models = {},
    log,
    authenticate,
    openWithoutKeys,
    environment = {},
    migrate,
    pool,
    ...given
  } = options;
  if (pool !== undefined) checkGivenPool(pool);
  const settings = pool === undefined ? given : { ...given, databaseUrl: given.databaseUrl ?? urlOfPool(pool.options) };
  if (agents === undefined && settings.agentsDir === undefined) {
    throw new BatonError('config_invalid', 'there are no agents: give `agents`, or `agentsDir` with their files');
  }
  const { agents: defined, toolSets, models: givenModels } = readDefinitions(agents ?? [], models);
  await using stack = new AsyncDisposableStack();
  const deps = stack.use(
    await openDependencies(configOf({ ...settings }), {
      migrate: migrate !== false,
      log: log === undefined ? createLog({ level: 'silent' }) : logTo(log),
      environment,
      toolSets,
      givenModels,
      hasWorkspace: settings.workspaceDir !== undefined,
      ...(agents !== undefined && { defined }),
      ...(pool !== undefined && { pool }),
    }),
  );
  const app = openApp(deps, stack, authenticate);
  const shutdown = new AbortController();
  const workers = createWorkers(deps);
  const sending = createSendIn(deps);
  stack.defer(async () => {
    shutdown.abort();
    await Promise.all([workers.stop(), sending[Symbol.asyncDispose]()]);
  });
  const { allowedHosts = null } = deps.config;
  const bindings = { shutdown: shutdown.signal, allowedHosts, openWithoutKeys: openWithoutKeys === true };
  const clientOf = (tenantId: string) => clientIn(app, tenantId, shutdown.signal);
  const client = clientOf(DEFAULT_TENANT_ID);
  const owned = stack.move();
  return {
    client,
    clientOf,
    fetch: async (request) => app.fetch(request, bindings),
    handler: listenerOf(app, bindings),
    startWorker: workers.start,
    sendIn: sending.send,
    readiness: client.readiness,
    lost: deps.lost,
    async stop({ graceMs } = {}) {
      workers.setGrace(graceMs);
      await owned.disposeAsync();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function clientIn(app: BatonApp, tenantId: string, shutdown: AbortSignal): BatonClient {
  const bindings: ServerBindings = { shutdown, caller: { tenantId, keyId: null, scopes: SCOPES } };
  return createClient({
    baseUrl: OWN_URL,
    fetch: async (url, init) => app.fetch(new Request(url, init), bindings),
  });
}

function createWorkers(deps: Dependencies) {
  const { config } = deps;
  const running = new Set<AsyncDisposable>();
  let graceMs = config.shutdownGraceMs;
  return {
    async start({ steps = config.stepConcurrency }: WorkerOptions = {}): Promise<AsyncDisposable> {
      const settings = { ...config, ...(configOf({ stepConcurrency: steps }) && { stepConcurrency: steps }) };
      const worker = await startJobWorker({ ...deps, config: settings }, undefined, () => graceMs);
      running.add(worker);
      return {
        async [Symbol.asyncDispose]() {
          if (running.delete(worker)) await worker[Symbol.asyncDispose]();
        },
      };
    },
    setGrace(given: number | undefined): void {
      graceMs = given ?? graceMs;
    },
    async stop(): Promise<void> {
      const stopping = [...running];
      running.clear();
      await Promise.all(stopping.map((worker) => worker[Symbol.asyncDispose]()));
    },
  };
}
