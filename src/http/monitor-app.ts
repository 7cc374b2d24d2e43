import { OpenAPIHono } from '@hono/zod-openapi';
import { createErrorHandler } from './error-handler.ts';
import { guarded } from './guarded.ts';
import type { BatonApp, HttpDeps, HttpEnv } from './http-deps.ts';
import { createNotFoundHandler } from './not-found.ts';
import { registerHealthRoutes } from './routes/health.ts';
import { registerMetricsRoute } from './routes/metrics.ts';

type MonitorDeps = Pick<HttpDeps, 'readiness' | 'metrics' | 'db' | 'log' | 'newId'>;

/**
 * `/livez`, `/readyz` and `/metrics` alone: for processes that serve no API. Where there are keys, a
 * scraper needs one here as well.
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
