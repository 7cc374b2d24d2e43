import { createRoute, z } from '@hono/zod-openapi';
import { formatId } from '../../domain/ids.ts';
import { JOB_KINDS } from '../../domain/run/job.ts';
import { PENDING_KINDS, RUN_STATUSES } from '../../domain/run/run.ts';
import { toSafeError } from '../../platform/log.ts';
import { within } from '../../platform/within.ts';
import type { JobQueues } from '../../queues/job-queue.ts';
import { type ClaimInHand, type Fleet, readFleet } from '../../store/lists/fleet.ts';
import { noQuery } from '../bodies/fields.ts';
import { jsonOf, REFUSED, timeBody } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

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

const list = createRoute({
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

const SHOWN_RUNS = 20;
const PATIENCE_MS = 2_000;

export function registerWorkerRoutes(app: BatonApp, { db, jobs, log }: HttpDeps): void {
  app.openapi(list, async (c) => {
    const [fleet, counts] = await Promise.all([readFleet(db), countJobs({ jobs, log })]);
    return c.json({ workers: fleet.workers.map(toWorker), queues: toQueues(fleet, counts) }, 200);
  });
}

/** Null: the queue cannot be reached. */
async function countJobs({ jobs, log }: Pick<HttpDeps, 'jobs' | 'log'>) {
  try {
    return await within(PATIENCE_MS, jobs.counts());
  } catch (error) {
    log('warn', { event: 'metrics_source_failed', source: 'queue', error: toSafeError(error) });
    return null;
  }
}

type Body = z.infer<typeof fleetBody>;

function toWorker({ inHand, since, seenAt, ...worker }: Fleet['workers'][number]): Body['workers'][number] {
  const runs = inHand.slice(0, SHOWN_RUNS).map(toClaim);
  return {
    ...worker,
    kinds: [...worker.kinds],
    since: since.toISOString(),
    seenAt: seenAt.toISOString(),
    inHand: inHand.length,
    runs,
  };
}

function toClaim({ runId, sessionId, leaseExpiresAt, tenant, kind, step, status }: ClaimInHand) {
  return {
    runId: formatId('run', runId),
    sessionId: formatId('session', sessionId),
    leaseExpiresAt: leaseExpiresAt?.toISOString() ?? null,
    tenant,
    kind,
    step,
    status,
  };
}

function toQueues({ due }: Fleet, counts: Awaited<ReturnType<JobQueues['counts']>> | null): Body['queues'] {
  return JOB_KINDS.map((kind) => {
    const waiting = due.find((each) => each.kind === kind);
    const { waiting: ready = null, delayed = null, active = null, failed = null } = counts?.[kind] ?? {};
    return {
      kind,
      waiting: ready,
      delayed,
      active,
      failed,
      due: waiting?.count ?? 0,
      oldestDueAt: waiting?.oldestAt.toISOString() ?? null,
    };
  });
}
