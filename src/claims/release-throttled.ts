import { addJobs } from '../commands/after-commit.ts';
import { toSafeError } from '../platform/log.ts';
import { releaseThrottled } from '../store/work/throttling.ts';
import type { JobDeps } from './job-deps.ts';

export type ReleaseDeps = Pick<JobDeps, 'db' | 'jobs' | 'log' | 'tenantConcurrency'>;

/** After the end of a claim: gives its slot to throttled runs of the tenant. If that fails, the sweep tries again. */
export async function releaseNext(deps: ReleaseDeps, tenantId: string): Promise<void> {
  try {
    const jobs = await releaseThrottled(deps.db, tenantId, deps.tenantConcurrency ?? 0);
    if (jobs.length > 0) deps.log('debug', { event: 'runs_released', runIds: jobs.map(({ runId }) => runId) });
    await addJobs(deps, jobs);
  } catch (error) {
    deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) });
  }
}
