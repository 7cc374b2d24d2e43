import { createBoard } from '../http/board.ts';
import { createProcessRate, createRedisRate, type RequestRate } from '../http/middleware/request-rate.ts';
import { type HttpServer, startHttpServer } from '../http/server.ts';
import { createStateGauges } from '../metrics/state-gauges.ts';
import { toSafeError } from '../platform/log.ts';
import { hasApiKeys } from '../store/api-keys.ts';
import { findOwners } from '../store/runs.ts';
import { countWorkersByKind } from '../store/workers.ts';
import { createApp } from './app.ts';
import type { Dependencies } from './dependencies.ts';
import { createMonitorApp } from './monitor-app.ts';

/** Serves the HTTP API until it is disposed. @throws BatonError `config_invalid`, see `startHttpServer` */
export async function startApi(deps: Dependencies): Promise<HttpServer> {
  await using stack = new AsyncDisposableStack();
  stack.use(deps.metrics.add(createStateGauges(deps)));
  const board = createBoard({
    queues: deps.jobs.bullQueues(),
    findOwners: (runIds) => findOwners(deps.db, runIds),
    isReadOnly: deps.config.adminReadOnly,
  });
  const requestRate = openRequestRate(deps);
  if (requestRate !== null) stack.use(requestRate);
  const { host, port, allowPublicBind, allowedHosts, defaultAgent } = deps.config;
  const { tenantTokensPerDay, tenantCostUsdPerDay, tenantStoredBytes, completionKeptDays } = deps.config;
  const { inboxMessages, inboxBytes, streamsPerKey, streams, connections } = deps.config;
  const app = createApp({
    ...deps,
    readiness: deps.health.readiness,
    countWorkers: () => countWorkersByKind(deps.db),
    board,
    defaultAgent,
    quota: { tokensPerDay: tenantTokensPerDay, costUsdPerDay: tenantCostUsdPerDay, storedBytes: tenantStoredBytes },
    completionKeptDays,
    heldLimits: { perKey: streamsPerKey, perProcess: streams },
    inboxLimits: { messages: inboxMessages, bytes: inboxBytes },
    ...(requestRate !== null && { requestRate }),
  });
  const keysExist = await hasApiKeys(deps.db);
  const server = await startHttpServer(app, {
    ...{ host, port, allowPublicBind, allowedHosts, hasApiKeys: keysExist },
    maxConnections: connections,
  });
  const { url } = stack.use(server);
  const owned = stack.move();
  return { url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Null: no limit is set. */
function openRequestRate({ config, log }: Dependencies): RequestRate | null {
  const { requestsPerMinute: perMinute, redisUrl, queuePrefix: prefix } = config;
  if (perMinute === 0) return null;
  if (redisUrl === undefined) return createProcessRate(perMinute);
  const onError = (error: unknown): void => log('warn', { event: 'request_rate_unknown', error: toSafeError(error) });
  return createRedisRate({ url: redisUrl, prefix, perMinute, onError });
}

/**
 * Serves health and metrics only, on a port of their own, until it is disposed.
 * @throws BatonError `config_invalid`, see `startHttpServer`
 */
export async function startMonitor(deps: Dependencies, port: number): Promise<HttpServer> {
  const app = createMonitorApp({ ...deps, readiness: deps.health.readiness });
  const { host, allowPublicBind, allowedHosts } = deps.config;
  return startHttpServer(app, { host, port, allowPublicBind, allowedHosts, hasApiKeys: await hasApiKeys(deps.db) });
}
