import { getLivenessRoute, getReadinessRoute } from '../../api/health.ts';
import { JOB_KINDS, type JobKind } from '../../domain/run/job.ts';
import { within } from '../../platform/within.ts';
import type { WorkersByKind } from '../../store/lists/fleet.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

export function registerHealthRoutes(
  app: BatonApp,
  { readiness, countWorkers, watch }: Pick<HttpDeps, 'readiness' | 'countWorkers' | 'watch'>,
): void {
  app.openapi(getLivenessRoute, async (c) => {
    const reason = (await watch?.whyStuck()) ?? null;
    return reason === null ? c.json({ status: 'ok' as const }, 200) : c.json({ status: 'stuck' as const, reason }, 503);
  });

  app.openapi(getReadinessRoute, async (c) => {
    const { ready, checks } = await readiness();
    const unattended = ready && countWorkers !== undefined ? await findUnattended(countWorkers) : null;
    return c.json({ ready, checks: { ...checks }, ...(unattended !== null && { unattended }) }, ready ? 200 : 503);
  });
}

const PATIENCE_MS = 1_000;

/** Kinds of job without a worker. Null: the database does not answer; the API is ready for messages all the same. */
async function findUnattended(countWorkers: () => Promise<WorkersByKind>): Promise<JobKind[] | null> {
  try {
    const counts = await within(PATIENCE_MS, countWorkers());
    return JOB_KINDS.filter((kind) => counts[kind] === 0);
  } catch {
    return null;
  }
}
