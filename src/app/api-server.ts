import { getHeapStatistics } from 'node:v8';
import { loadIncomingHooks } from '../agents/incoming-hooks.ts';
import { answerBudget } from '../domain/answer-budget.ts';
import { bodyBudget } from '../domain/body-budget.ts';
import { BatonError } from '../domain/errors.ts';
import { createBoard } from '../http/board.ts';
import type { HttpDeps } from '../http/http-deps.ts';
import type { BatonApp } from '../http/http-env.ts';
import { createIntake } from '../http/intake.ts';
import { createOpenRequests } from '../http/middleware/open-requests.ts';
import { createProcessRate, createRedisRate, type RequestRate } from '../http/middleware/request-rate.ts';
import { createOutflow } from '../http/outflow.ts';
import { type HttpServer, startHttpServer } from '../http/server.ts';
import { createStateGauges } from '../metrics/state-gauges.ts';
import { batonCommand } from '../platform/baton-command.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { toSafeError } from '../platform/log.ts';
import { redisServerOf } from '../platform/redis-server.ts';
import { hasApiKeys } from '../store/around/api-keys.ts';
import { countWorkersByKind } from '../store/lists/fleet.ts';
import { findOwners } from '../store/session/runs.ts';
import { webhookPolicyOf } from '../webhooks/check-webhook.ts';
import { createApp } from './app.ts';
import { PORT_SETTING } from './check-port.ts';
import type { Dependencies } from './dependencies.ts';

/** Opens the HTTP API and serves it until it is disposed. @throws BatonError `config_invalid`, see `startHttpServer` */
export async function startApi(deps: Dependencies): Promise<HttpServer> {
  await using stack = new AsyncDisposableStack();
  const { url } = stack.use(await serveApp(deps, openApp(deps, stack), true));
  const owned = stack.move();
  return { url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/**
 * Serves the API where the configuration says, until it is disposed.
 * @param mayBeOpen whether it takes requests without a key while there is none
 * @throws BatonError `config_invalid`: pages of other origins could do everything; or see `startHttpServer`
 */
export async function serveApp(deps: Dependencies, app: BatonApp, mayBeOpen: boolean): Promise<HttpServer> {
  const { host, port, allowPublicBind, allowedHosts, connections, corsOrigins } = deps.config;
  const haveKeys = await hasApiKeys(deps.db);
  if (mayBeOpen && !haveKeys && corsOrigins.length > 0) {
    throw new BatonError(
      'config_invalid',
      `BATON_CORS_ORIGINS (corsOrigins) lets pages of other origins ask, and without API keys nothing would restrict them: create a key (${batonCommand()} keys create --name NAME), or leave it out`,
    );
  }
  return startHttpServer(app, {
    ...{ host, port, portSetting: PORT_SETTING, allowPublicBind, allowedHosts, mayBeOpen, hasApiKeys: haveKeys },
    maxConnections: connections,
    log: deps.log,
  });
}

/** How a program that mounts the API lets callers in. */
export type ProgramAccess = Pick<HttpDeps, 'authenticate' | 'consoleAccess' | 'isMounted'>;

/**
 * The API with the limits of the configuration, without a server.
 * @param stack what the app needs while it is used
 */
export function openApp(deps: Dependencies, stack: AsyncDisposableStack, access: ProgramAccess = {}): BatonApp {
  stack.use(deps.metrics.add(createStateGauges(deps)));
  const board = createBoard({
    queues: deps.jobs.bullQueues(),
    findOwners: (runIds) => findOwners(deps.db, runIds),
    isReadOnly: deps.config.adminReadOnly,
  });
  const requestRate = openRequestRate(deps);
  if (requestRate !== null) stack.use(requestRate);
  const openRequests = createOpenRequests();
  stack.defer(openRequests.ended);
  const { completionKeptDays, defaultAgent, mcpAnswerMs, messageSearch, tenantRequests } = deps.config;
  const { streamsPerKey, streams } = deps.config;
  return createApp({
    ...deps,
    readiness: deps.health.readiness,
    watch: deps.watch,
    countWorkers: () => countWorkersByKind(deps.db),
    board,
    defaultAgent,
    completionKeptDays,
    mcpAnswerMs,
    messageSearch,
    openRequests,
    tenantRequests,
    intake: createIntake(bodyBudget(getHeapStatistics().heap_size_limit, deps.config.bodyBytes)),
    outflow: createOutflow(answerBudget(getHeapStatistics().heap_size_limit)),
    heldLimits: { perKey: streamsPerKey, perProcess: streams },
    hooks: loadIncomingHooks(deps.config.hooksFile, deps.environment),
    webhookPolicy: webhookPolicyOf(deps.config),
    ...(requestRate !== null && { requestRate }),
    corsOrigins: deps.config.corsOrigins,
    ...(deps.config.traceUrl !== undefined && { traceUrl: deps.config.traceUrl }),
    ...access,
  });
}

/** Null: no limit is set. */
function openRequestRate({ config, log }: Dependencies): RequestRate | null {
  const { requestsPerMinute: perMinute, queuePrefix: prefix } = config;
  if (perMinute === 0) return null;
  const redis = redisServerOf(config);
  if (redis === undefined) return createProcessRate(perMinute);
  const onError = (error: unknown): void => log('warn', { event: 'request_rate_unknown', error: toSafeError(error) });
  return createRedisRate({ ...redis, prefix, perMinute, onError });
}
