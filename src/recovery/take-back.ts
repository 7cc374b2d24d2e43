import { addJobs, afterGivenUp, type FailurePorts } from '../commands/after-commit.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { MAX_RESUMES_PER_STEP } from '../domain/tunables.ts';
import { inLanes } from '../platform/in-lanes.ts';
import { type RecoveryReason, toSafeError } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import type { Tx } from '../store/db/database.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import { requeueLostRuns } from '../store/work/claims.ts';
import type { LeasedRun } from '../store/work/lost-work.ts';
import { type FailedRun, failRun } from '../store/work/run-failure.ts';

export type RecoveryDeps = FailurePorts &
  Readonly<{
    jobs: JobQueues;
    /** The slots of one tenant: claimed runs at a time. Default 0: no limit. */
    tenantConcurrency?: number;
  }>;

/** Pieces of work at a time after a death: half of a process's default connections, because its own runs go on. */
export const RECOVERED_AT_ONCE = 5;

/**
 * Works on each item, `atOnce` at a time. A failure is logged and does not stop the others.
 * @throws the error of an unavailable Postgres or queue, after the work that had begun has ended
 */
export async function eachByItself<T>(
  { log }: Pick<RecoveryDeps, 'log'>,
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
  atOnce = 1,
): Promise<void> {
  await inLanes(items, atOnce, async (item) => {
    try {
      await work(item);
    } catch (error) {
      if (isStoreUnavailable(error)) throw error;
      log('warn', { event: 'sweep_failed', error: toSafeError(error) });
    }
  });
}

/** Locks lost runs with their sessions, and checks them again. Leaves out those that are not lost, or are locked. */
export type LockLost = (tx: Tx, runs: readonly LeasedRun[]) => Promise<LeasedRun[]>;

/** Runs taken back by one transaction: a worker may leave a thousand of them. */
const TAKEN_BACK_TOGETHER = 10;

/**
 * Queues the runs of lost workers again, and fails those that have lost too many workers.
 * @param atOnce transactions at a time
 * @returns the number of runs that were lost
 * @throws the error of an unavailable Postgres
 */
export async function takeBackEach(
  deps: RecoveryDeps,
  runs: readonly LeasedRun[],
  lockLost: LockLost,
  { reason, atOnce = 1 }: Readonly<{ reason: RecoveryReason; atOnce?: number }>,
): Promise<number> {
  let takenBackCount = 0;
  const takeGroup = async (group: readonly LeasedRun[]): Promise<void> => {
    try {
      const count = await takeBack(deps, (tx) => lockLost(tx, group), reason);
      takenBackCount += count;
    } catch (error) {
      if (isStoreUnavailable(error) || group.length === 1) throw error;
      // One of them cannot be taken back: it must not keep the others.
      await eachByItself(
        deps,
        group.map((run) => [run]),
        takeGroup,
      );
    }
  };
  await eachByItself(deps, groupsOf(runs), takeGroup, atOnce);
  return takenBackCount;
}

function* groupsOf(runs: readonly LeasedRun[]): Generator<readonly LeasedRun[]> {
  for (let at = 0; at < runs.length; at += TAKEN_BACK_TOGETHER) yield runs.slice(at, at + TAKEN_BACK_TOGETHER);
}

/** Takes back the runs that `lockLost` locks, in one transaction. Returns their number. */
async function takeBack(
  deps: RecoveryDeps,
  lockLost: (tx: Tx) => Promise<LeasedRun[]>,
  reason: RecoveryReason,
): Promise<number> {
  const { requeued, jobs, givenUp } = await deps.db.transaction().execute((tx) => requeueLost(tx, lockLost));
  for (const { run, ...failed } of givenUp) await afterGivenUp(deps, { ...run, ...failed, runId: run.id });
  for (const { id: runId, sessionId } of requeued) {
    deps.log('warn', { event: 'run_recovered', runId, sessionId, reason });
  }
  // First in the queue, because their steps have already begun. One by one, because over Postgres jobs that are added
  // together wake one worker, and it takes them one after the other.
  await Promise.all(jobs.map((job) => addJobs(deps, [job], { isFirst: true })));
  return requeued.length + givenUp.length;
}

type TakenBack = Readonly<{
  requeued: readonly LeasedRun[];
  jobs: readonly JobPayload[];
  givenUp: readonly (FailedRun & Readonly<{ run: LeasedRun }>)[];
}>;

async function requeueLost(tx: Tx, lockLost: (tx: Tx) => Promise<LeasedRun[]>): Promise<TakenBack> {
  const lost = await lockLost(tx);
  const mayGoOn = ({ resumeCount }: LeasedRun): boolean => resumeCount < MAX_RESUMES_PER_STEP;
  const givenUp: (FailedRun & { run: LeasedRun })[] = [];
  for (const run of lost.filter((each) => !mayGoOn(each))) {
    const message = `The step lost its worker ${run.resumeCount} times and is not tried again.`;
    givenUp.push({ run, ...(await failRun(tx, run.sessionId, run.id, { code: 'resume_limit', message })) });
  }
  const requeued = lost.filter(mayGoOn);
  if (requeued.length === 0) return { requeued, jobs: [], givenUp };
  const jobs = await requeueLostRuns(
    tx,
    requeued.map(({ id }) => id),
  );
  return { requeued, jobs, givenUp };
}
