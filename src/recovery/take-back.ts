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
  /** The slots of one tenant: claimed runs at a time. Default 0: no limit. */
  tenantConcurrency?: number;
}>;

/** Runs taken back at a time after a death: half of a process's default connections, because its own runs go on. */
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

/** Locks a session and its run, and checks again whether the run is lost. Null: it is not, or cannot be locked now. */
export type LockLost = (tx: Tx) => Promise<LeasedRun | null>;

/** Queues the run of a lost worker again, or fails it after too many lost workers. False: it was not lost. */
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
    // First in the queue, because its step has already begun.
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
  return { kind: 'requeued', run, job: await requeueRun(tx, run.id, true) };
}
