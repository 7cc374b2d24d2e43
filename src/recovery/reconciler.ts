import { enqueue } from '../claims/enqueue-next.ts';
import { releaseNext } from '../claims/release-throttled.ts';
import { afterLeaseCheck, afterNoAnswer, NEW_LEASE_WATCH, whoseLeasesCount } from '../domain/liveness/lease-watch.ts';
import type { JobPayload } from '../domain/run/job.ts';
import {
  BLOB_COLLECTION_INTERVAL_MS,
  DEATH_CONFIRMED_AFTER_MS,
  SWEEP_BACKOFF_CAP_MS,
  SWEEP_INTERVAL_MS,
  SWEEP_LIMIT,
  UNCLAIMED_GRACE_MS,
  UNREFERENCED_BLOB_KEPT_MS,
} from '../domain/tunables.ts';
import { toSafeError } from '../platform/log.ts';
import type { AddOptions } from '../queues/job-queue.ts';
import { expireWait, findExpiredWaits, type WaitingRun } from '../store/call-answers.ts';
import { forgetExpiredKeys } from '../store/idempotency.ts';
import {
  asOnlySweeper,
  findExpiredLeases,
  findUnclaimed,
  type LeasedRun,
  lockExpiredLease,
  type PendingRun,
  postponeCheck,
  readUptimeMs,
  redispatch,
  type UnclaimedRun,
} from '../store/lost-work.ts';
import { deleteOrphanedBlobs, timeBefore } from '../store/retention.ts';
import { isStoreUnavailable } from '../store/store-unavailable.ts';
import { findThrottledTenants } from '../store/throttling.ts';
import { isRegistered } from '../store/workers.ts';
import { eachByItself, RECOVERED_AT_ONCE, type RecoveryDeps, takeBack } from './take-back.ts';

export type ReconcilerDeps = RecoveryDeps & Readonly<{ leaseDurationMs: number }>;

export type Reconciler = AsyncDisposable & Readonly<{ sweep: () => Promise<void> }>;

/**
 * Finds what a crash lost and puts it back: runs whose worker is gone, and pending work whose job is not in the queue.
 * Ends the waits that nobody answered in time, and collects blobs that nothing refers to. Because of it the queue owns
 * nothing and may be emptied at any moment. One process sweeps at a time.
 */
export function startReconciler(deps: ReconcilerDeps, intervalMs: number = SWEEP_INTERVAL_MS): Reconciler {
  let sweeping: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const sweep = createSweep(deps);
  const schedule = (): void => {
    if (stopped) return;
    // Jitter: the processes do not try for the lock all at once.
    timer = setTimeout(
      () => {
        sweeping = sweep().finally(schedule);
      },
      intervalMs * (0.75 + Math.random() / 2),
    );
  };
  schedule();
  return {
    sweep,
    async [Symbol.asyncDispose]() {
      stopped = true;
      clearTimeout(timer);
      await sweeping;
    },
  };
}

/** One look at everything. A part that fails is logged, keeps no other waiting, and is tried again by the next look. */
function createSweep(deps: ReconcilerDeps): () => Promise<void> {
  const leases = watchLeases(deps);
  const collectBlobs = createBlobCollection(deps);
  const attempt = async (part: () => Promise<unknown>): Promise<void> => {
    try {
      await part();
    } catch (error) {
      deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) });
    }
  };
  return async () => {
    await attempt(leases.recover);
    if (leases.isStoreUnavailable()) return;
    await attempt(() => recoverUnclaimed(deps));
    await attempt(() => releaseEverywhere(deps));
    await attempt(() => expireWaits(deps));
    await attempt(() => forgetExpiredKeys(deps.db, SWEEP_LIMIT));
    await attempt(collectBlobs);
  };
}

/** Blobs of deleted sessions, and uploads that no message came for: now and then, and so many at a time. */
function createBlobCollection({ db, log }: RecoveryDeps): () => Promise<void> {
  let dueAtMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (performance.now() < dueAtMs) return;
    const blobs = await deleteOrphanedBlobs(db, await timeBefore(db, UNREFERENCED_BLOB_KEPT_MS), SWEEP_LIMIT);
    if (blobs > 0) log('info', { event: 'blobs_collected', blobs });
    if (blobs < SWEEP_LIMIT) dueAtMs = performance.now() + BLOB_COLLECTION_INTERVAL_MS;
  };
}

/** Whoever died between the end of a claim and the next admission: nobody waits for a slot that is free. */
async function releaseEverywhere(deps: RecoveryDeps): Promise<void> {
  for (const tenantId of await findThrottledTenants(deps.db)) await releaseNext(deps, tenantId);
}

/** Takes back the runs of expired leases. */
function watchLeases(deps: ReconcilerDeps) {
  const { db, leaseDurationMs } = deps;
  let watch = NEW_LEASE_WATCH;
  const recover = async (): Promise<void> => {
    const whose = whoseLeasesCount(watch, performance.now());
    const expired = whose === 'nobody' ? [] : await findExpiredLeases(db, SWEEP_LIMIT, whose);
    const uptimeMs = await readUptimeMs(db);
    const nowMs = performance.now();
    watch = afterLeaseCheck(watch, { nowMs, leaseDurationMs, uptimeMs });
    if (whose === 'nobody' || nowMs < watch.heldOffUntilMs) return;
    const takeOneBack = (run: LeasedRun) => takeBack(deps, (tx) => lockExpiredLease(tx, run, whose), 'lease_expired');
    await eachByItself(deps, expired, takeOneBack);
  };
  return {
    /** Nothing else of a sweep can be done then. */
    isStoreUnavailable: () => watch.isAway,
    recover: () =>
      recover().catch((error) => {
        if (isStoreUnavailable(error)) watch = afterNoAnswer(watch);
        throw error;
      }),
  };
}

/** Runs that waited for answers longer than they may go on without them. */
async function expireWaits(deps: RecoveryDeps): Promise<void> {
  await eachByItself(deps, await findExpiredWaits(deps.db, SWEEP_LIMIT), (run) => expireOne(deps, run));
}

async function expireOne(deps: RecoveryDeps, run: WaitingRun): Promise<void> {
  const wait = await deps.db.transaction().execute((tx) => expireWait(tx, run));
  if (wait === null) return;
  deps.bus.announce(run.sessionId, wait.eventSeq);
  deps.log('info', { event: 'run_wait_expired', runId: run.id, sessionId: run.sessionId, calls: wait.expired });
  await enqueue(deps, [wait.job]);
}

async function recoverUnclaimed(deps: RecoveryDeps): Promise<void> {
  const unclaimed = (await asOnlySweeper(deps.db, (tx) => findUnclaimed(tx, UNCLAIMED_GRACE_MS, SWEEP_LIMIT))) ?? [];
  let added = 0;
  await eachByItself(deps, unclaimed, async (run) => {
    if (await redeliver(deps, run)) added += 1;
  });
  // An emptied queue: what else it has lost does not wait for the next sweep.
  if (added === SWEEP_LIMIT) await recoverUnclaimed(deps);
}

/** Beside the jobs that the queue names, which are as many as a worker has in hand at most. */
const MISSING_AT_ONCE = 3;

/** What somebody has begun does not wait behind what nobody has. */
const IN_HAND: AddOptions = { isFirst: true };

/** What is due later than this a sweep finds soon after it is due. */
const DUE_WITHIN_MS = 60_000;

/**
 * After the death of a worker: it may have taken jobs out of the queue without having claimed their runs, which the
 * queue knows, or ended a step without having added its next job. Nobody knows of which, so that all work is looked for
 * that has been due since before the death, and then all that is due soon: it may have been to try a step again later.
 */
export async function recoverJobsOfDead(deps: RecoveryDeps, workerId: string): Promise<void> {
  const giveAgain = async (job: JobPayload): Promise<void> => {
    const again = await redispatch(deps.db, job);
    if (again !== null) await addLost(deps, again, IN_HAND);
  };
  // The queue's answer takes its time, and nothing else waits for it. What is in both is given once: whoever is first
  // raises the dispatch counter that the other one looks at.
  const giveTaken = async (): Promise<void> =>
    eachByItself(deps, await deps.jobs.takenBy(workerId), giveAgain, RECOVERED_AT_ONCE);
  const giveMissing = async (): Promise<void> => {
    const unclaimed = await findUnclaimed(deps.db, DEATH_CONFIRMED_AFTER_MS, SWEEP_LIMIT);
    await eachByItself(deps, unclaimed, (run) => redeliver(deps, run, IN_HAND), MISSING_AT_ONCE);
  };
  for (const given of await Promise.allSettled([giveTaken(), giveMissing()])) {
    if (given.status === 'rejected') throw given.reason;
  }
  const dueSoon = await findUnclaimed(deps.db, -DUE_WITHIN_MS, SWEEP_LIMIT);
  await eachByItself(deps, dueSoon, (run) => addIfMissing(deps, run), MISSING_AT_ONCE);
}

/** What is in the queue is left as it is. */
async function addIfMissing(deps: RecoveryDeps, run: UnclaimedRun): Promise<void> {
  if ((await deps.jobs.stateOf(run)) !== 'missing') return;
  const { waitedMs } = run;
  const dueInMs = Math.max(0, Math.ceil(-waitedMs));
  const delayMs = dueInMs > 0 ? dueInMs : Math.min(waitedMs, SWEEP_BACKOFF_CAP_MS);
  const isPending = await postponeCheck(deps.db, run, delayMs, false);
  if (isPending) await addLost(deps, run, dueInMs > 0 ? { delayMs: dueInMs } : IN_HAND);
}

/**
 * A job that waits in the queue only needs patience; one that is missing is added; one that is stuck gets a new id.
 * @returns whether there is a new job
 */
async function redeliver(deps: RecoveryDeps, run: UnclaimedRun, place: AddOptions = {}): Promise<boolean> {
  const state = await deps.jobs.stateOf(run);
  const stuck = state === 'active' && (await isStuck(deps, run));
  const isLost = state === 'missing' || stuck;
  const job = stuck ? await redispatch(deps.db, run) : run;
  if (job === null) return false;
  // Looked at again after its job: a run that was claimed meanwhile has used that up, and needs no other.
  const isTaken = state === 'active' && !stuck;
  const isPending = await postponeCheck(deps.db, job, Math.min(run.waitedMs, SWEEP_BACKOFF_CAP_MS), isTaken);
  if (!isLost || !isPending) return false;
  await addLost(deps, job, place);
  return true;
}

/**
 * A job that was taken without a claim: its taker is dead and forgotten, or had it at the look before already, and so has
 * had all the time that a claim takes. One that has waited for long may have been taken a moment ago.
 */
async function isStuck({ db, jobs }: RecoveryDeps, run: UnclaimedRun): Promise<boolean> {
  if (run.foundTaken) return true;
  const workerId = await jobs.takerOf(run);
  return workerId !== null && !(await isRegistered(db, workerId));
}

async function addLost({ jobs, log }: RecoveryDeps, job: PendingRun, place: AddOptions): Promise<void> {
  const { runId, kind, no, dispatch, sessionId } = job;
  await jobs.add([{ runId, kind, no, dispatch }], place);
  log('warn', { event: 'run_recovered', runId, sessionId, reason: 'job_lost' });
}
