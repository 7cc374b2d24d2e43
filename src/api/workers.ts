import { createRoute, z } from '@hono/zod-openapi';
import { JOB_KINDS } from '../domain/run/job.ts';
import { PENDING_KINDS, RUN_STATUSES } from '../domain/run/run.ts';
import { noQuery } from './fields.ts';
import { jsonOf, REFUSED, timeBody } from './responses.ts';

const count = z.int().nullable();

export const fleetBody = z
  .object({
    workers: z.array(
      z.object({
        id: z.string().openapi({ description: 'Its host, its process and what makes it unique.' }),
        kinds: z.array(z.enum(JOB_KINDS)),
        engine: z.int().openapi({ description: 'Its version of the job protocol.' }),
        isAlive: z.boolean().openapi({ description: 'It holds its lock. One that does not is about to be retired.' }),
        since: timeBody.openapi({ description: 'It holds its lock since then.' }),
        seenAt: timeBody.openapi({ description: 'Its last sign of life.' }),
        inHand: z.int().openapi({ description: 'Runs that it has claimed.' }),
        runs: z.array(
          z.object({
            runId: z.string(),
            sessionId: z.string(),
            tenant: z.string(),
            kind: z.enum(PENDING_KINDS).nullable(),
            step: z.int(),
            status: z.enum(RUN_STATUSES),
            leaseExpiresAt: timeBody.nullable(),
          }),
        ),
      }),
    ),
    queues: z.array(
      z.object({
        kind: z.enum(JOB_KINDS),
        waiting: count.openapi({ description: 'Jobs in the queue by their state; null: it cannot be reached.' }),
        delayed: count,
        active: count,
        failed: count,
        due: z.int().openapi({ description: 'Work that no worker has claimed, as Postgres knows it.' }),
        oldestDueAt: timeBody.nullable(),
      }),
    ),
  })
  .openapi('Fleet');

export const listWorkersRoute = createRoute({
  method: 'get',
  path: '/v1/workers',
  operationId: 'listWorkers',
  tags: ['operator'],
  summary: 'The workers with what they have in hand, and the queues',
  description:
    'Of all tenants: the key needs the scope `operator`. At most 1000 workers, and at most 20 runs of each: `inHand` counts all.',
  request: { query: noQuery },
  responses: { 200: jsonOf(fleetBody, 'The workers and the queues.'), ...REFUSED },
});
