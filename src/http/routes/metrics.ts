import { getMetricsRoute } from '../../api/metrics.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

/** https://prometheus.io/docs/instrumenting/exposition_formats/ */
const TEXT_FORMAT = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' };

export function registerMetricsRoute(app: BatonApp, { metrics: source }: Pick<HttpDeps, 'metrics'>): void {
  app.openapi(getMetricsRoute, async (c) => c.text(await source.text(), 200, TEXT_FORMAT));
}
