import { createRoute, z } from '@hono/zod-openapi';
import { DENIED } from './responses.ts';

export const getMetricsRoute = createRoute({
  method: 'get',
  path: '/metrics',
  operationId: 'getMetrics',
  tags: ['health'],
  summary: 'What this process counts and measures, for Prometheus',
  responses: { 200: { description: 'The text format.', content: { 'text/plain': { schema: z.string() } } }, ...DENIED },
});
