import { DEATH_CONFIRMED_AFTER_MS, LIVENESS_CHECK_INTERVAL_MS, LOSS_WITNESSED_AFTER_MS } from '../tunables.ts';

/** What one check sees of a registered worker. */
export type WorkerSight = Readonly<{
  id: string;
  /** Of the lock that it holds for as long as its connection lives. Every connection has a new one. */
  lockKey: number;
  /** Nobody holds the lock: the worker is dead, or only its connection is. */
  lockFree: boolean;
  /** When it took that lock, in seconds by the database's clock: compared, never reckoned with. */
  lockedAt: string;
  /** When it last gave a sign of life, or somebody who came saw it hold its lock, by the same clock. */
  seenAt: string;
  /** Somebody has seen that it has lost this lock while others kept theirs. */
  lostAlone: boolean;
}>;

type Suspect = Readonly<{ lockKey: number; seenAt: string; sinceMs: number }>;

/** What a watcher remembers from one check to the next. */
export type LivenessWatch = Readonly<{
  /** The key of the watcher's own lock; null before the first check. */
  ownLockKey: number | null;
  /** Until then nobody is taken for dead. */
  heldOffUntilMs: number;
  /** Locks that were free before the watcher came and that an outage may have freed: until then they say nothing. */
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
  /** The watcher is a worker as well. */
  ownId: string;
  workers: readonly WorkerSight[];
  /** By a monotonic clock of the watcher: what was seen was so at some moment between the question and the answer. */
  askedAtMs: number;
  answeredAtMs: number;
  leaseDurationMs: number;
}>;

export type LivenessJudgement = Readonly<{
  watch: LivenessWatch;
  dead: readonly WorkerSight[];
  /** Whose lock was lost alone, and nobody has written that down: should the watcher die as well, its successor knows. */
  lostAlone: readonly WorkerSight[];
  nextCheckInMs: number;
}>;

/**
 * Who is dead. A free lock alone says only that a connection is gone, so that a worker is dead when its lock was free
 * in two checks, with the same key, and it gave no sign of life between them.
 *
 * What frees many locks at once (Postgres restarts or fails over, somebody cuts connections) frees the watcher's
 * too, or has made it take another one: from then on it takes nobody for dead for a whole lease, and the leases
 * decide. A watcher that has just started cannot know what was before: it leaves those alone for a lease who may all
 * have lost their locks together, but for those of whom somebody knew better and has left word.
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
 * The free locks that one event may have freed, as a newcomer sees them. A lock that is still held has outlived
 * whatever happened since it was taken: a worker that gave a sign of life after that has lost its own lock alone, or
 * has had the time to come back and gives more signs. The lock of a worker that has no other beside it is believed: its
 * successor is not to wait.
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
    // Reckoned so that the two looks were apart for that long at least, however slowly they were answered.
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

/** How long a watcher waits before it looks again, among so many workers, while it suspects nobody. */
export function checkIntervalMs(workers: number): number {
  const { perWorker, min, max } = LIVENESS_CHECK_INTERVAL_MS;
  return Math.min(max, Math.max(min, perWorker * workers));
}

/**
 * After a check that got no answer: what was suspected before it counts no more, since its sign
 * of life got none either.
 */
export function withoutSuspects(watch: LivenessWatch): LivenessWatch {
  return { ...watch, suspects: new Map() };
}
