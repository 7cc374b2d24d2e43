import { createApp } from '../http/app.ts';
import { createBoard } from '../http/board.ts';
import { createMonitorApp } from '../http/monitor-app.ts';
import { type HttpServer, startHttpServer } from '../http/server.ts';
import { createStateGauges } from '../metrics/state-gauges.ts';
import { hasApiKeys } from '../store/api-keys.ts';
import type { Dependencies } from './dependencies.ts';

/** Serves the HTTP API until it is disposed. @throws BatonError `config_invalid`, see `startHttpServer` */
export async function startApi(deps: Dependencies): Promise<HttpServer> {
  await using stack = new AsyncDisposableStack();
  stack.use(deps.metrics.add(createStateGauges(deps)));
  const board = createBoard({ queues: deps.jobs.bullQueues(), isReadOnly: deps.config.adminReadOnly });
  const app = createApp({ ...deps, readiness: deps.health.readiness, board });
  const { host, port, allowPublicBind } = deps.config;
  const server = await startHttpServer(app, { host, port, allowPublicBind, hasApiKeys: await hasApiKeys(deps.db) });
  const { url } = stack.use(server);
  const owned = stack.move();
  return { url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/**
 * Serves health and metrics alone on a port of their own until it is disposed.
 * @throws BatonError `config_invalid`, see `startHttpServer`
 */
export async function startMonitor(deps: Dependencies, port: number): Promise<HttpServer> {
  const app = createMonitorApp({ ...deps, readiness: deps.health.readiness });
  const { host, allowPublicBind } = deps.config;
  return startHttpServer(app, { host, port, allowPublicBind, hasApiKeys: await hasApiKeys(deps.db) });
}
