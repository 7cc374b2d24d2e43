import { enqueue } from '../claims/enqueue-next.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { MAX_RESUMES_PER_STEP } from '../domain/tunables.ts';
import type { LiveBus } from '../events/live-bus.ts';
import { type Log, type RecoveryReason, toSafeError } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import { requeueRun } from '../store/claims.ts';
import type { Db, Tx } from '../store/database.ts';
import type { LeasedRun } from '../store/lost-work.ts';
import { type FailedRun, failRun } from '../store/run-failure.ts';
import { isStoreUnavailable } from '../store/store-unavailable.ts';

export type RecoveryDeps = Readonly<{
  db: Db;
  jobs: JobQueues;
  bus: LiveBus;
  log: Log;
  /** Runs of one tenant that may be claimed at the same time; 0, the default: any number. */
  tenantConcurrency?: number;
}>;

/**
 * After a death, when everybody waits: half of the connections that a process has by default, whose
 * own runs go on meanwhile.
 */
export const RECOVERED_AT_ONCE = 5;

/**
 * Does something for each, one after the other or so many at once. What fails for one is logged
 * and keeps no other waiting.
 * @throws what says that Postgres or the queue is away: there is no use in going on. Nothing is under way any more then
 */
export async function eachByItself<T>(
  { log }: Pick<RecoveryDeps, 'log'>,
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
  atOnce = 1,
): Promise<void> {
  const left = Iterator.from(items);
  let isAway = false;
  const lane = async (): Promise<void> => {
    for (let next = left.next(); next.done !== true && !isAway; next = left.next()) {
      try {
        await work(next.value);
      } catch (error) {
        if (isStoreUnavailable(error)) {
          isAway = true;
          throw error;
        }
        log('warn', { event: 'sweep_failed', error: toSafeError(error) });
      }
    }
  };
  const lanes = await Promise.allSettled(Array.from({ length: atOnce }, lane));
  for (const ended of lanes) if (ended.status === 'rejected') throw ended.reason;
}

/** Locks a run's session and the run, and looks again whether it is lost. Null: it is not, or cannot be locked now. */
export type LockLost = (tx: Tx) => Promise<LeasedRun | null>;

/**
 * Takes a run from the worker that lost it and puts it back into its queue; one that has cost too many workers fails.
 * False: it was not lost after all.
 */
export async function takeBack(deps: RecoveryDeps, lockLost: LockLost, reason: RecoveryReason): Promise<boolean> {
  const taken = await deps.db.transaction().execute((tx) => requeueLost(tx, lockLost));
  if (taken === null) return false;
  const { id: runId, sessionId, resumeCount } = taken.run;
  if (taken.kind === 'given-up') {
    deps.bus.announce(sessionId, taken.eventSeq);
    deps.log('error', { event: 'run_given_up', runId, sessionId, resumeCount });
    const { limit } = taken;
    const ended =
      limit === null
        ? ({ status: 'failed', reason: 'resume_limit' } as const)
        : ({ status: 'incomplete', reason: limit } as const);
    deps.log('info', { event: 'run_ended', runId, sessionId, ...ended });
  } else {
    deps.log('warn', { event: 'run_recovered', runId, sessionId, reason });
    // It was in hand already: it does not wait behind what has not begun.
    if (taken.job !== null) await enqueue(deps, [taken.job], { isFirst: true });
  }
  return true;
}

type TakenBack = Readonly<{ run: LeasedRun }> &
  Readonly<{ kind: 'requeued'; job: JobPayload | null } | ({ kind: 'given-up' } & FailedRun)>;

async function requeueLost(tx: Tx, lockLost: LockLost): Promise<TakenBack | null> {
  const run = await lockLost(tx);
  if (run === null) return null;
  if (run.resumeCount >= MAX_RESUMES_PER_STEP) {
    const message = `The step lost its worker ${run.resumeCount} times and is not tried again.`;
    const failed = await failRun(tx, run.sessionId, run.id, { code: 'resume_limit', message });
    return { kind: 'given-up', run, ...failed };
  }
  return { kind: 'requeued', run, job: await requeueRun(tx, run.sessionId, run.id, true) };
}
