import { toSafeError } from '../platform/log.ts';
import { releaseThrottled } from '../store/throttling.ts';
import { enqueue } from './enqueue-next.ts';
import type { JobDeps } from './job-deps.ts';

/** What letting runs in needs; without a limit nobody is held back. */
export type ReleaseDeps = Pick<JobDeps, 'db' | 'jobs' | 'log' | 'tenantConcurrency'>;

/**
 * After a claim was let go: whoever waits for its tenant's slot goes on. A failure costs a
 * moment, the sweep tries again.
 */
export async function releaseNext(deps: ReleaseDeps, tenantId: string): Promise<void> {
  try {
    const jobs = await releaseThrottled(deps.db, tenantId, deps.tenantConcurrency ?? 0);
    if (jobs.length > 0) deps.log('debug', { event: 'runs_released', runIds: jobs.map(({ runId }) => runId) });
    await enqueue(deps, jobs);
  } catch (error) {
    deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) });
  }
}
