import { createRoute, z } from '@hono/zod-openapi';
import { DENIED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

const metrics = createRoute({
  method: 'get',
  path: '/metrics',
  operationId: 'getMetrics',
  tags: ['health'],
  summary: 'What this process counts and measures, for Prometheus',
  responses: { 200: { description: 'The text format.', content: { 'text/plain': { schema: z.string() } } }, ...DENIED },
});

/** https://prometheus.io/docs/instrumenting/exposition_formats/ */
const TEXT_FORMAT = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' };

export function registerMetricsRoute(app: BatonApp, { metrics: source }: Pick<HttpDeps, 'metrics'>): void {
  app.openapi(metrics, async (c) => c.text(await source.text(), 200, TEXT_FORMAT));
}
