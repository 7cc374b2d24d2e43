import { DEATH_CONFIRMED_AFTER_MS, LIVENESS_CHECK_INTERVAL_MS, LOSS_WITNESSED_AFTER_MS } from '../tunables.ts';

/** A registered worker as one check sees it. */
export type WorkerSight = Readonly<{
  id: string;
  /** The key of its advisory lock, which it holds while its connection lives. Every connection has a new key. */
  lockKey: number;
  /** No connection holds the lock: the worker is dead, or only its connection is. */
  lockFree: boolean;
  /** When it took that lock, in seconds by the clock of Postgres. Only for comparison. */
  lockedAt: string;
  /** Its last sign of life, or the last time that a new worker saw it hold its lock. By the same clock. */
  seenAt: string;
  /** A watcher saw it lose this lock while others kept theirs (`workers.lost_alone`). */
  lostAlone: boolean;
}>;

type Suspect = Readonly<{ lockKey: number; seenAt: string; sinceMs: number }>;

/** A watcher's memory between two checks. */
export type LivenessWatch = Readonly<{
  /** The key of the watcher's own lock; null before the first check. */
  ownLockKey: number | null;
  /** Until then no worker is judged dead. */
  heldOffUntilMs: number;
  /** Locks that were free before the watcher started, perhaps by an outage. Until `untilMs` they prove nothing. */
  doubtful: Readonly<{ lockKeys: ReadonlySet<number>; untilMs: number }>;
  suspects: ReadonlyMap<string, Suspect>;
}>;

export const NEW_WATCH: LivenessWatch = {
  ownLockKey: null,
  heldOffUntilMs: Number.NEGATIVE_INFINITY,
  doubtful: { lockKeys: new Set(), untilMs: Number.NEGATIVE_INFINITY },
  suspects: new Map(),
};

export type LivenessCheck = Readonly<{
  /** The watcher's own worker. */
  ownId: string;
  workers: readonly WorkerSight[];
  /** By a monotonic clock of the watcher. The check shows a moment between the two. */
  askedAtMs: number;
  answeredAtMs: number;
  leaseDurationMs: number;
}>;

export type LivenessJudgement = Readonly<{
  watch: LivenessWatch;
  dead: readonly WorkerSight[];
  /** Workers to record as `lost_alone`: should the watcher die as well, its successor knows. */
  lostAlone: readonly WorkerSight[];
  nextCheckInMs: number;
}>;

/**
 * Finds the dead workers: those whose lock was free in two checks, with the same key and no sign of life between them.
 * One free lock may only mean a lost connection.
 *
 * Postgres frees all locks when it restarts or fails over (ARCHITECTURE.md, Recovery). So a watcher that lost its own
 * lock judges no worker for one lease, and a new watcher ignores locks that may have been freed together, unless
 * `lostAlone` is set.
 */
export function judgeWorkers(watch: LivenessWatch, check: LivenessCheck): LivenessJudgement {
  const own = check.workers.find(({ id }) => id === check.ownId);
  const isUndisturbed = own?.lockFree === false && (watch.ownLockKey ?? own.lockKey) === own.lockKey;
  const ownLockKey = own?.lockKey ?? watch.ownLockKey;
  const heldOffUntilMs = isUndisturbed ? watch.heldOffUntilMs : check.answeredAtMs + check.leaseDurationMs;
  const isNew = watch.ownLockKey === null;
  const untilMs = check.answeredAtMs + check.leaseDurationMs;
  const doubtful = isNew ? { lockKeys: perhapsFreedTogether(check), untilMs } : watch.doubtful;
  if (check.askedAtMs >= heldOffUntilMs) return judgeFreeLocks({ ...watch, ownLockKey, doubtful }, check);
  const heldOff = { ownLockKey, heldOffUntilMs, doubtful, suspects: new Map() };
  return { watch: heldOff, dead: [], lostAlone: [], nextCheckInMs: checkIntervalMs(check.workers.length) };
}

/**
 * The free locks that one outage may have freed before this watcher started. Excluded are workers seen since the oldest
 * held lock was taken (no outage has freed locks since), and the only other worker (its successor is not to wait).
 */
function perhapsFreedTogether({ ownId, workers }: LivenessCheck): ReadonlySet<number> {
  if (workers.filter(({ id }) => id !== ownId).length === 1) return new Set();
  const oldestHeld = Math.min(...workers.filter(({ lockFree }) => !lockFree).map(({ lockedAt }) => Number(lockedAt)));
  const doubtful = workers.filter(({ lockFree, seenAt }) => lockFree && Number(seenAt) <= oldestHeld);
  return new Set(doubtful.map(({ lockKey }) => lockKey));
}

function judgeFreeLocks(watch: LivenessWatch, check: LivenessCheck): LivenessJudgement {
  const suspects = new Map<string, Suspect>();
  const dead: WorkerSight[] = [];
  const lostAlone: WorkerSight[] = [];
  const { lockKeys, untilMs } = watch.doubtful;
  const doubted = check.askedAtMs < untilMs ? lockKeys : new Set();
  let nextCheckInMs = checkIntervalMs(check.workers.length);
  for (const worker of check.workers) {
    const { lockKey, seenAt } = worker;
    if (!worker.lockFree || (doubted.has(lockKey) && !worker.lostAlone)) continue;
    const before = watch.suspects.get(worker.id);
    const unchanged = before?.lockKey === lockKey && before.seenAt === seenAt;
    const sinceMs = unchanged ? before.sinceMs : check.answeredAtMs;
    suspects.set(worker.id, { lockKey, seenAt, sinceMs });
    // From the first answer to this question: slow answers cannot shorten it.
    const suspectedForMs = unchanged ? check.askedAtMs - sinceMs : 0;
    const isWitnessed = suspectedForMs >= LOSS_WITNESSED_AFTER_MS;
    const isDead = suspectedForMs >= DEATH_CONFIRMED_AFTER_MS;
    if (isWitnessed && !isDead && !worker.lostAlone) lostAlone.push(worker);
    const dueAfterMs = isWitnessed || worker.lostAlone ? DEATH_CONFIRMED_AFTER_MS : LOSS_WITNESSED_AFTER_MS;
    if (isDead) dead.push(worker);
    else nextCheckInMs = Math.min(nextCheckInMs, sinceMs + dueAfterMs - check.askedAtMs);
  }
  return { watch: { ...watch, suspects }, dead, lostAlone, nextCheckInMs };
}

/** The pause between two checks of a watcher without suspects. */
export function checkIntervalMs(workers: number): number {
  const { perWorker, min, max } = LIVENESS_CHECK_INTERVAL_MS;
  return Math.min(max, Math.max(min, perWorker * workers));
}

/** The memory after a check without an answer. Suspects are dropped: their signs of life got no answer either. */
export function withoutSuspects(watch: LivenessWatch): LivenessWatch {
  return { ...watch, suspects: new Map() };
}
