import { OpenAPIHono } from '@hono/zod-openapi';
import type { HttpDeps } from '../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../http/http-env.ts';
import { createErrorHandler } from '../http/middleware/error-handler.ts';
import { guarded } from '../http/middleware/guarded.ts';
import { createNotFoundHandler } from '../http/middleware/not-found.ts';
import { registerHealthRoutes } from '../http/routes/health.ts';
import { registerMetricsRoute } from '../http/routes/metrics.ts';
import { type HttpServer, startHttpServer } from '../http/server.ts';
import { VARIABLES } from '../platform/settings.ts';
import { hasApiKeys } from '../store/around/api-keys.ts';
import type { Dependencies } from './dependencies.ts';

/**
 * Serves health and metrics only, on a port of their own, until it is disposed.
 * @throws BatonError `config_invalid`, see `startHttpServer`
 */
export async function startMonitor(deps: Dependencies, port: number): Promise<HttpServer> {
  const app = createMonitorApp({ ...deps, readiness: deps.health.readiness });
  const { host, allowPublicBind, allowedHosts } = deps.config;
  return startHttpServer(app, {
    ...{ host, port, portSetting: VARIABLES.metricsPort, allowPublicBind, allowedHosts },
    hasApiKeys: await hasApiKeys(deps.db),
  });
}

type MonitorDeps = Pick<HttpDeps, 'readiness' | 'watch' | 'metrics' | 'db' | 'log' | 'newId'>;

/**
 * `/livez`, `/readyz` and `/metrics` only, for processes without an API. If there are API keys, a scraper needs one.
 */
export function createMonitorApp(deps: MonitorDeps): BatonApp {
  const app: BatonApp = new OpenAPIHono<HttpEnv>();
  app.onError(createErrorHandler(deps.log));
  app.notFound(createNotFoundHandler(app));
  app.use(...guarded(deps));
  registerHealthRoutes(app, deps);
  registerMetricsRoute(app, deps);
  return app;
}
