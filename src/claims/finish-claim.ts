import { handBack } from './hand-back.ts';
import type { JobDeps } from './job-deps.ts';
import type { JobScope } from './job-scope.ts';
import { retryWhileStoreUnavailable } from './retry-while-store-unavailable.ts';

/**
 * Writes the end of a claimed job, again while Postgres is away. If an earlier try was committed and only its reply was
 * lost, the repetition is fenced, and the job that the commit left is added here. If a failover has lost earlier writes of
 * the claim but not the claim, the run is handed back: its step is recovered from what Postgres has.
 * @param write as for `retryWhileStoreUnavailable`. Null: fenced
 * @throws errors of `retryWhileStoreUnavailable`
 */
export function finishClaim<T>(
  deps: Pick<JobDeps, 'db' | 'jobs' | 'log'>,
  scope: JobScope,
  write: (isRepeated: boolean) => Promise<T | null>,
): Promise<T | null> {
  return retryWhileStoreUnavailable(scope.held, async (isRepeated) => {
    const finished = await write(isRepeated);
    if (finished === null) await handBack(deps, scope, isRepeated);
    return finished;
  });
}
