import { OpenAPIHono } from '@hono/zod-openapi';
import { createAuthentication } from './authenticate.ts';
import { createErrorHandler } from './error-handler.ts';
import type { BatonApp, HttpDeps, HttpEnv } from './http-deps.ts';
import { createNotFoundHandler } from './not-found.ts';
import { registerHealthRoutes } from './routes/health.ts';
import { registerMetricsRoute } from './routes/metrics.ts';

type MonitorDeps = Pick<HttpDeps, 'readiness' | 'metrics' | 'db' | 'log'>;

/**
 * `/livez`, `/readyz` and `/metrics` alone: for processes that serve no API. Where there are keys, a scraper needs one here
 * as well.
 */
export function createMonitorApp(deps: MonitorDeps): BatonApp {
  const app: BatonApp = new OpenAPIHono<HttpEnv>();
  app.onError(createErrorHandler(deps.log));
  app.notFound(createNotFoundHandler(app));
  app.use(createAuthentication(deps));
  registerHealthRoutes(app, deps);
  registerMetricsRoute(app, deps);
  return app;
}
