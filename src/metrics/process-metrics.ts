import { collectDefaultMetrics, Registry } from 'prom-client';
import type { MetricsSource } from './metrics.ts';

/** Gauges with the names of counters, which linters of metrics reject. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** Memory, processor time, event loop and garbage collection of this process. Call it once. */
export function createProcessMetrics(): MetricsSource {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  return { registry };
}
