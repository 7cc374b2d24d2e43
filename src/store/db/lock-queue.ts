import { BatonError } from '../../domain/errors.ts';
import { LOCK_QUEUE_WITHIN_MS, MAX_CONNECTIONS_PER_LOCK, MAX_TRANSACTIONS_PER_LOCK } from '../../domain/tunables.ts';

type Lane = { waiting: number; readonly line: (() => void)[] };

/** Of this process, by the name of the lock. A lock without waiters has no lane. */
const lanes = new Map<string, Lane>();

/**
 * Thrown when the maximum of connections already waits for a lock. The transaction rolls back, returns its connection
 * to the pool and begins again in its turn, so that other work finds connections.
 */
export class LockBusy extends Error {
  override readonly name = 'LockBusy';
  readonly #lock: string;

  constructor(lock: string) {
    super('as many connections as may wait for this lock do');
    this.#lock = lock;
  }

  /**
   * Resolves when the transaction may begin again.
   * @param sinceMs `performance.now()` of its first wait; null: this is the first
   * @throws BatonError `store_unavailable` after too long a wait, or behind too many others
   */
  async waited(sinceMs: number | null): Promise<void> {
    const lane = lanes.get(this.#lock);
    if (lane === undefined || lane.waiting < MAX_CONNECTIONS_PER_LOCK) return;
    const leftMs = LOCK_QUEUE_WITHIN_MS - (sinceMs === null ? 0 : performance.now() - sinceMs);
    if (leftMs <= 0 || lane.line.length >= MAX_TRANSACTIONS_PER_LOCK) throw crowded();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // A newcomer may have taken the place of a waiter whose turn it was. That waiter goes back to the front.
    if (sinceMs === null) lane.line.push(resolve);
    else lane.line.unshift(resolve);
    const late = setTimeout(() => {
      leave(lane, this.#lock, resolve);
      reject(crowded());
    }, leftMs);
    await promise.finally(() => clearTimeout(late));
  }

  /** To call after each turn: a transaction that did not ask for the lock again has woken no other one. */
  enqueueNext(): void {
    const lane = lanes.get(this.#lock);
    if (lane !== undefined && lane.waiting < MAX_CONNECTIONS_PER_LOCK) lane.line.shift()?.();
  }
}

/** Waits for a lock by `wait`, if few enough connections do. @throws LockBusy; errors of `wait` */
export async function inLockQueue<T>(lock: string, wait: () => Promise<T>): Promise<T> {
  const lane = lanes.get(lock) ?? { waiting: 0, line: [] };
  if (lane.waiting >= MAX_CONNECTIONS_PER_LOCK) throw new LockBusy(lock);
  lanes.set(lock, lane);
  lane.waiting += 1;
  try {
    return await wait();
  } finally {
    lane.waiting -= 1;
    lane.line.shift()?.();
    forgetIfEmpty(lane, lock);
  }
}

function leave(lane: Lane, lock: string, resolve: () => void): void {
  const at = lane.line.indexOf(resolve);
  if (at >= 0) lane.line.splice(at, 1);
  forgetIfEmpty(lane, lock);
}

function forgetIfEmpty(lane: Lane, lock: string): void {
  if (lane.waiting === 0 && lane.line.length === 0 && lanes.get(lock) === lane) lanes.delete(lock);
}

const crowded = (): BatonError =>
  new BatonError('store_unavailable', 'Many requests about the same session wait for each other: send fewer at once');
