import { OpenAPIHono } from '@hono/zod-openapi';
import type { BatonApp, HttpDeps, HttpEnv } from './http-deps.ts';
import { createNotFoundHandler } from './not-found.ts';
import { registerHealthRoutes } from './routes/health.ts';
import { registerMetricsRoute } from './routes/metrics.ts';

/** `/livez`, `/readyz` and `/metrics` alone: for processes that serve no API, and for scrapers that may see nothing else. */
export function createMonitorApp(deps: Pick<HttpDeps, 'readiness' | 'metrics'>): BatonApp {
  const app: BatonApp = new OpenAPIHono<HttpEnv>();
  app.notFound(createNotFoundHandler(app));
  registerHealthRoutes(app, deps);
  registerMetricsRoute(app, deps);
  return app;
}
