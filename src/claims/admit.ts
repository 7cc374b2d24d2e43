import { toSafeError } from '../platform/log.ts';
import { admitHeldBack } from '../store/admission.ts';
import type { JobDeps } from './job-deps.ts';
import { enqueue } from './pass-on.ts';

/** What letting runs in needs; without a limit nobody is held back. */
export type AdmissionDeps = Pick<JobDeps, 'db' | 'jobs' | 'log' | 'tenantConcurrency'>;

/**
 * After a claim was let go: whoever waits for its tenant's slot goes on. A failure costs a
 * moment, the sweep tries again.
 */
export async function admitNext(deps: AdmissionDeps, tenantId: string): Promise<void> {
  try {
    const jobs = await admitHeldBack(deps.db, tenantId, deps.tenantConcurrency ?? 0);
    if (jobs.length > 0) deps.log('debug', { event: 'runs_admitted', runIds: jobs.map(({ runId }) => runId) });
    await enqueue(deps, jobs);
  } catch (error) {
    deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) });
  }
}
