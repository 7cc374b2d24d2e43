import { createRoute, z } from '@hono/zod-openapi';
import { JOB_KINDS } from '../domain/run/job.ts';
import { jsonOf, OTHER_HOST } from './responses.ts';

const readinessBody = z
  .object({
    ready: z.boolean(),
    checks: z.record(z.string(), z.object({ ok: z.boolean(), message: z.string().optional() })),
    unattended: z.array(z.enum(JOB_KINDS)).optional().openapi({
      description: 'Kinds of jobs that no worker takes at the moment: what is accepted waits. Told by the API alone.',
    }),
  })
  .openapi('Readiness');

export const getLivenessRoute = createRoute({
  method: 'get',
  path: '/livez',
  operationId: 'getLiveness',
  tags: ['health'],
  security: [],
  summary: 'The process answers, and can work',
  responses: {
    200: jsonOf(z.object({ status: z.literal('ok') }), 'It does.'),
    503: jsonOf(
      z.object({ status: z.literal('stuck'), reason: z.string() }),
      'It has failed at its work for 30 s although its stores answer others: start it again.',
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
  summary: 'Everything that requests need answers',
  responses: {
    200: jsonOf(readinessBody, 'Send requests.'),
    503: jsonOf(readinessBody, 'Do not: the checks say why.'),
    ...OTHER_HOST,
  },
});
