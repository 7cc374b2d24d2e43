import type { z } from '@hono/zod-openapi';
import { type fleetBody, listWorkersRoute } from '../../api/workers.ts';
import { formatId } from '../../domain/ids.ts';
import { JOB_KINDS } from '../../domain/run/job.ts';
import { toSafeError } from '../../platform/log.ts';
import { within } from '../../platform/within.ts';
import { type ClaimInHand, type Fleet, readFleet } from '../../store/lists/fleet.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

const SHOWN_RUNS = 20;
const PATIENCE_MS = 2_000;

export function registerWorkerRoutes(app: BatonApp, { db, jobs, log }: HttpDeps): void {
  app.openapi(listWorkersRoute, async (c) => {
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

function toQueues({ due }: Fleet, counts: Awaited<ReturnType<HttpDeps['jobs']['counts']>> | null): Body['queues'] {
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
