import { OpenAPIHono } from '@hono/zod-openapi';
import type { HttpDeps } from '../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../http/http-env.ts';
import { createErrorHandler } from '../http/middleware/error-handler.ts';
import { guarded } from '../http/middleware/guarded.ts';
import { createNotFoundHandler } from '../http/middleware/not-found.ts';
import { registerHealthRoutes } from '../http/routes/health.ts';
import { registerMetricsRoute } from '../http/routes/metrics.ts';

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
