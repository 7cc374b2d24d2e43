import {
  checkIntervalMs,
  judgeWorkers,
  type LivenessWatch,
  NEW_WATCH,
  type WorkerSight,
  withoutSuspects,
} from '../domain/liveness/worker-liveness.ts';
import { SWEEP_LIMIT } from '../domain/tunables.ts';
import { toSafeError } from '../platform/log.ts';
import { createLooker } from '../platform/looker.ts';
import { findRunsOfWorker, lockRunsOfDeadWorker } from '../store/work/lost-work.ts';
import { forgetDeadWorker, listWorkers, markHoldersSeen, noteLostAlone } from '../store/work/workers.ts';
import { recoverJobsOfDead } from './reconciler.ts';
import { type LockLost, RECOVERED_AT_ONCE, type RecoveryDeps, takeBackEach } from './take-back.ts';

export type WorkerWatchDeps = RecoveryDeps & Readonly<{ workerId: string; leaseDurationMs: number }>;

/**
 * Creates a check that retires dead workers. It keeps its state, because finding a death takes two looks.
 * @param clock monotonic, in milliseconds
 * @returns the check, which resolves with the milliseconds until the next one
 */
export function createWorkerWatch(deps: WorkerWatchDeps, clock: () => number): () => Promise<number> {
  let watch: LivenessWatch = NEW_WATCH;
  let watched = 0;
  return async () => {
    try {
      const { workerId: ownId, leaseDurationMs } = deps;
      const askedAtMs = clock();
      const workers = await listWorkers(deps.db);
      const judged = judgeWorkers(watch, { ownId, workers, askedAtMs, answeredAtMs: clock(), leaseDurationMs });
      const hasNewLock = judged.watch.ownLockKey !== watch.ownLockKey;
      watch = judged.watch;
      watched = workers.length;
      if (hasNewLock) await markHoldersSeen(deps.db, ownId);
      if (judged.lostAlone.length > 0) await noteLostAlone(deps.db, judged.lostAlone);
      for (const worker of judged.dead) await retire(deps, worker);
      return judged.nextCheckInMs;
    } catch (error) {
      watch = withoutSuspects(watch);
      deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) });
      return checkIntervalMs(watched);
    }
  };
}

export function watchWorkers(deps: WorkerWatchDeps): AsyncDisposable {
  // At once: a lock that is held at the first look cannot have been lost before.
  return createLooker(
    createWorkerWatch(deps, () => performance.now()),
    0,
  );
}

async function retire(deps: WorkerWatchDeps, worker: WorkerSight): Promise<void> {
  const left = await findRunsOfWorker(deps.db, worker.id, SWEEP_LIMIT);
  const lock: LockLost = (tx, lost) => lockRunsOfDeadWorker(tx, lost, worker);
  const runs = await takeBackEach(deps, left, lock, { reason: 'worker_dead', atOnce: RECOVERED_AT_ONCE });
  const forgotten = await forgetDeadWorker(deps.db, worker);
  if (runs > 0 || forgotten) deps.log('warn', { event: 'worker_dead', deadWorkerId: worker.id, runs });
  // Only the watcher that retired the worker recovers its jobs.
  if (forgotten) await recoverJobsOfDead(deps, worker.id);
}
