import { releaseNext } from '../claims/release-throttled.ts';
import { addLostJob, afterWait } from '../commands/after-commit.ts';
import { afterLeaseCheck, afterNoAnswer, NEW_LEASE_WATCH, whoseLeasesCount } from '../domain/liveness/lease-watch.ts';
import type { JobPayload } from '../domain/run/job.ts';
import {
  BLOB_COLLECTION_INTERVAL_MS,
  BLOB_PAGE,
  DEATH_CONFIRMED_AFTER_MS,
  DISPATCHES_LEFT_OUT,
  SWEEP_BACKOFF_CAP_MS,
  SWEEP_INTERVAL_MS,
  SWEEP_LIMIT,
  UNCLAIMED_GRACE_MS,
  UNREFERENCED_BLOB_KEPT_MS,
} from '../domain/tunables.ts';
import { toSafeError } from '../platform/log.ts';
import { lookEvery } from '../platform/looker.ts';
import type { WorkReport } from '../platform/work-watch.ts';
import type { AddOptions } from '../queues/job-queue.ts';
import { forgetExpiredKeys } from '../store/around/idempotency.ts';
import { deleteOrphanedBlobs, findTenantsWith, timeBefore } from '../store/around/retention.ts';
import { expireWait, findExpiredWaits, type WaitingRun } from '../store/changes/call-answers.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import {
  asOnlySweeper,
  findExpiredLeases,
  findUnclaimed,
  lockExpiredLeases,
  type PendingRun,
  postponeCheck,
  readUptimeMs,
  redispatch,
  type UnclaimedRun,
} from '../store/work/lost-work.ts';
import { findThrottledTenants } from '../store/work/throttling.ts';
import { isRegistered } from '../store/work/workers.ts';
import { eachByItself, RECOVERED_AT_ONCE, type RecoveryDeps, takeBackEach } from './take-back.ts';

export type ReconcilerDeps = RecoveryDeps & Readonly<{ leaseDurationMs: number; report?: WorkReport }>;

export type Reconciler = AsyncDisposable & Readonly<{ sweep: () => Promise<void> }>;

/**
 * Finds lost work and restores it, so that the queue may be emptied at any moment: runs with expired leases, and
 * pending work without a job. It also releases throttled runs, ends expired waits and removes unreferenced blobs.
 */
export function startReconciler(deps: ReconcilerDeps, intervalMs: number = SWEEP_INTERVAL_MS): Reconciler {
  const sweep = createSweep(deps);
  return { ...lookEvery(intervalMs, sweep), sweep };
}

/** One sweep. A part that fails is logged and tried again in the next sweep, and the other parts still run. */
function createSweep(deps: ReconcilerDeps): () => Promise<void> {
  const leases = watchLeases(deps);
  const collectBlobs = createBlobCollection(deps);
  const forgetKeys = createKeyCollection(deps);
  const attempt = async (part: () => Promise<unknown>): Promise<void> => {
    try {
      await part();
      deps.report?.succeeded();
    } catch (error) {
      deps.report?.failed(error);
      deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) });
    }
  };
  return async () => {
    await attempt(leases.recover);
    if (leases.isStoreUnavailable()) return;
    await attempt(() => recoverUnclaimed(deps));
    await attempt(() => releaseEverywhere(deps));
    await attempt(() => expireWaits(deps));
    await attempt(forgetKeys);
    await attempt(collectBlobs);
  };
}

/** Time that a sweep gives to blobs, so that no lost run waits for them. */
const BLOBS_PER_SWEEP_MS = 50;

/** Removes blobs of deleted sessions and unused uploads: once per interval, in pages. Tenants take turns. */
function createBlobCollection({ db, log }: RecoveryDeps): () => Promise<void> {
  let dueAtMs = Number.NEGATIVE_INFINITY;
  let waiting: readonly Readonly<{ tenantId: string; after: Uint8Array | null }>[] = [];
  const takePage = async (): Promise<number> => {
    const [next, ...others] = waiting;
    if (next === undefined) return 0;
    const { tenantId, after } = next;
    // The next sweep goes on with another tenant, whatever happens to this page.
    waiting = [...others, next];
    const page = { before: await timeBefore(db, UNREFERENCED_BLOB_KEPT_MS), after, limit: BLOB_PAGE };
    const { removed, last } = await deleteOrphanedBlobs(db, tenantId, page);
    waiting = last === null ? others : [...others, { tenantId, after: last }];
    return removed;
  };
  return async () => {
    const startedAtMs = performance.now();
    if (waiting.length === 0) {
      if (startedAtMs < dueAtMs) return;
      waiting = (await findTenantsWith(db, 'blobs')).map((tenantId) => ({ tenantId, after: null }));
      dueAtMs = startedAtMs + BLOB_COLLECTION_INTERVAL_MS;
    }
    let blobs = 0;
    do blobs += await takePage();
    while (waiting.length > 0 && performance.now() - startedAtMs < BLOBS_PER_SWEEP_MS);
    if (blobs > 0) log('info', { event: 'blobs_collected', blobs });
  };
}

/** Removes expired keys of requests, of some tenants in each sweep, one after the other. */
function createKeyCollection({ db }: RecoveryDeps): () => Promise<void> {
  let after = '';
  return async () => {
    const { last } = await forgetExpiredKeys(db, { after, perTenant: SWEEP_LIMIT });
    after = last ?? '';
  };
}

/** A worker may have died between the end of its claim and the release of the slot. */
async function releaseEverywhere(deps: RecoveryDeps): Promise<void> {
  for (const tenantId of await findThrottledTenants(deps.db)) await releaseNext(deps, tenantId);
}

function watchLeases(deps: ReconcilerDeps) {
  const { db, leaseDurationMs } = deps;
  let watch = NEW_LEASE_WATCH;
  const recover = async (): Promise<void> => {
    const whose = whoseLeasesCount(watch, performance.now());
    const expired = whose === 'none' ? [] : await findExpiredLeases(db, SWEEP_LIMIT, whose);
    const uptimeMs = await readUptimeMs(db);
    const nowMs = performance.now();
    watch = afterLeaseCheck(watch, { nowMs, leaseDurationMs, uptimeMs });
    if (whose === 'none' || nowMs < watch.heldOffUntilMs) return;
    await takeBackEach(deps, expired, (tx, lost) => lockExpiredLeases(tx, lost, whose), { reason: 'lease_expired' });
  };
  return {
    /** No other part of a sweep can work then. */
    isStoreUnavailable: () => watch.isAway,
    recover: () =>
      recover().catch((error) => {
        if (isStoreUnavailable(error)) watch = afterNoAnswer(watch);
        throw error;
      }),
  };
}

async function expireWaits(deps: RecoveryDeps): Promise<void> {
  await eachByItself(deps, await findExpiredWaits(deps.db, SWEEP_LIMIT), (run) => expireOne(deps, run));
}

async function expireOne(deps: RecoveryDeps, run: WaitingRun): Promise<void> {
  const wait = await deps.db.transaction().execute((tx) => expireWait(tx, run));
  if (wait === null) return;
  deps.log('info', { event: 'run_wait_expired', runId: run.id, sessionId: run.sessionId, calls: wait.expired });
  await afterWait(deps, run.sessionId, wait);
}

async function recoverUnclaimed(deps: RecoveryDeps): Promise<void> {
  const unclaimed = (await asOnlySweeper(deps.db, (tx) => findUnclaimed(tx, UNCLAIMED_GRACE_MS, SWEEP_LIMIT))) ?? [];
  let added = 0;
  await eachByItself(deps, unclaimed, async (run) => {
    if (await redeliver(deps, run)) added += 1;
  });
  // A full batch was lost, as from an emptied queue: continue at once.
  if (added === SWEEP_LIMIT) await recoverUnclaimed(deps);
}

/** Lookups at a time. Jobs that the queue lists are given again at the same time. */
const MISSING_AT_ONCE = 3;

/** Work that has begun goes before work that has not. */
const IN_HAND: AddOptions = { isFirst: true };

/** The regular sweep finds later work soon enough. */
const DUE_WITHIN_MS = 60_000;

/**
 * After a worker's death: finds jobs that it took without claiming their runs, which the queue lists, and steps that it
 * ended without adding the next job. For these it checks all work due since before the death, then work due soon, such
 * as a delayed retry.
 */
export async function recoverJobsOfDead(deps: RecoveryDeps, workerId: string): Promise<void> {
  const giveAgain = async (job: JobPayload): Promise<void> => {
    const again = await redispatch(deps.db, job);
    if (again !== null) await addLostJob(deps, again, IN_HAND);
  };
  // Both at once, because the queue answers slowly. A job in both is added once: the first raises the dispatch number.
  const giveTaken = async (): Promise<void> =>
    eachByItself(deps, await deps.jobs.takenBy(workerId), giveAgain, RECOVERED_AT_ONCE);
  const giveMissing = async (): Promise<void> => {
    const unclaimed = await findUnclaimed(deps.db, DEATH_CONFIRMED_AFTER_MS, SWEEP_LIMIT);
    await eachByItself(deps, unclaimed, (run) => redeliver(deps, run, IN_HAND), MISSING_AT_ONCE);
  };
  for (const settled of await Promise.allSettled([giveTaken(), giveMissing()])) {
    if (settled.status === 'rejected') throw settled.reason;
  }
  const dueSoon = await findUnclaimed(deps.db, -DUE_WITHIN_MS, SWEEP_LIMIT);
  await eachByItself(deps, dueSoon, (run) => addIfMissing(deps, run), MISSING_AT_ONCE);
}

async function addIfMissing(deps: RecoveryDeps, run: UnclaimedRun): Promise<void> {
  const state = await deps.jobs.stateOf(run);
  if (state !== 'missing' && state !== 'ended') return;
  const { waitedMs } = run;
  const dueInMs = Math.max(0, Math.ceil(-waitedMs));
  const delayMs = dueInMs > 0 ? dueInMs : Math.min(waitedMs, SWEEP_BACKOFF_CAP_MS);
  const job = state === 'ended' ? await replaceEnded(deps, run) : run;
  if (job === null) return;
  const isPending = await postponeCheck(deps.db, job, delayMs, false);
  if (isPending) await addLostJob(deps, job, dueInMs > 0 ? { delayMs: dueInMs } : IN_HAND);
}

/**
 * Leaves a waiting job, hastens one that is delayed beyond its time, adds a missing one, and one that is stuck or has
 * ended under a new dispatch. Returns whether a job was added.
 */
async function redeliver(deps: RecoveryDeps, run: UnclaimedRun, place: AddOptions = {}): Promise<boolean> {
  const state = await deps.jobs.stateOf(run);
  const stuck = state === 'active' && (await isStuck(deps, run));
  const isLost = state === 'missing' || state === 'ended' || stuck;
  const job = stuck ? await redispatch(deps.db, run) : state === 'ended' ? await replaceEnded(deps, run) : run;
  if (job === null) return false;
  // Checked after the look at the queue: a run that was claimed meanwhile needs no job.
  const isTaken = state === 'active' && !stuck;
  if (state === 'delayed') await deps.jobs.hasten(run);
  const isPending = await postponeCheck(deps.db, job, Math.min(run.waitedMs, SWEEP_BACKOFF_CAP_MS), isTaken);
  if (!isLost || !isPending) return false;
  await addLostJob(deps, job, place);
  return true;
}

/**
 * The job of work that is still to be done has ended: Postgres has lost its commits, or the queue an outcome. The lost
 * history may have used the next numbers, too.
 */
const replaceEnded = ({ db }: RecoveryDeps, run: UnclaimedRun): Promise<PendingRun | null> =>
  redispatch(db, run, DISPATCHES_LEFT_OUT);

/**
 * A job that was taken without a claim is stuck if its worker is gone, or if the previous check already found it taken.
 * A long wait proves nothing: the job may have been taken a moment ago.
 */
async function isStuck({ db, jobs }: RecoveryDeps, run: UnclaimedRun): Promise<boolean> {
  if (run.foundTaken) return true;
  const workerId = await jobs.takerOf(run);
  return workerId !== null && !(await isRegistered(db, workerId));
}
