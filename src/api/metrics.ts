import { createRoute, z } from '@hono/zod-openapi';
import { DENIED } from './responses.ts';

export const getMetricsRoute = createRoute({
  method: 'get',
  path: '/metrics',
  operationId: 'getMetrics',
  tags: ['health'],
  summary: 'Read the metrics of the process, for Prometheus',
  responses: {
    200: { description: 'Metrics in the text format.', content: { 'text/plain': { schema: z.string() } } },
    ...DENIED,
  },
});
