import { createRoute, z } from '@hono/zod-openapi';
import { JOB_KINDS } from '../domain/run/job.ts';
import { jsonOf, OTHER_HOST } from './responses.ts';

const readinessBody = z
  .object({
    ready: z.boolean(),
    checks: z.record(z.string(), z.object({ ok: z.boolean(), message: z.string().optional() })),
    unattended: z.array(z.enum(JOB_KINDS)).optional().openapi({
      description: 'Job kinds without a worker. Their work waits. Only API processes report this.',
    }),
  })
  .openapi('Readiness');

export const getLivenessRoute = createRoute({
  method: 'get',
  path: '/livez',
  operationId: 'getLiveness',
  tags: ['health'],
  security: [],
  summary: 'Check that the process answers and can work',
  responses: {
    200: jsonOf(z.object({ status: z.literal('ok') }), 'The process answers and can work.'),
    503: jsonOf(
      z.object({ status: z.literal('stuck'), reason: z.string() }),
      'The process has failed at its work for 30 s although its stores answer others: start it again.',
    ),
    ...OTHER_HOST,
  },
});

export const getReadinessRoute = createRoute({
  method: 'get',
  path: '/readyz',
  operationId: 'getReadiness',
  tags: ['health'],
  security: [],
  summary: 'Check that everything that requests need answers',
  responses: {
    200: jsonOf(readinessBody, 'The process is ready for requests.'),
    503: jsonOf(readinessBody, 'The process is not ready. The checks say why.'),
    ...OTHER_HOST,
  },
});
