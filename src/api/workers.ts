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
        id: z.string().openapi({ description: 'Id of the worker: host, process and a unique suffix.' }),
        kinds: z.array(z.enum(JOB_KINDS)),
        engine: z.int().openapi({ description: 'Version of the worker’s job protocol.' }),
        isAlive: z.boolean().openapi({
          description: 'True: the worker holds its presence lock. A worker without it is about to be retired.',
        }),
        since: timeBody.openapi({ description: 'Time since which the worker holds its presence lock.' }),
        seenAt: timeBody.openapi({ description: 'Last sign of life of the worker.' }),
        inHand: z.int().openapi({ description: 'Number of runs that the worker has claimed.' }),
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
        waiting: count.openapi({ description: 'Jobs in the queue by state. null: the queue cannot be reached.' }),
        delayed: count,
        active: count,
        failed: count,
        due: z.int().openapi({ description: 'Unclaimed work, by Postgres.' }),
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
  summary: 'List the workers with their claimed runs, and the queues',
  description:
    'Covers all tenants, so the key needs the scope `operator`. Lists at most 1000 workers, and at most 20 runs of each: `inHand` counts all.',
  request: { query: noQuery },
  responses: { 200: jsonOf(fleetBody, 'The workers and the queues.'), ...REFUSED },
});
