import { setTimeout as delay } from 'node:timers/promises';
import { HAND_BACK_WITHIN_MS, STORE_RETRY_CAP_MS, STORE_RETRY_FIRST_MS } from '../domain/tunables.ts';
import { backOffMs } from '../platform/back-off.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import type { HeldClaim } from './claim-keeper.ts';

/**
 * Repeats a write of a claimed job while Postgres is away: the finished work is worth the wait, and heartbeats renew
 * the claim even after its lease. The write must be harmless when it happens twice, because its reply may have been
 * lost.
 * @param write `isRepeated`: an earlier try has failed
 * @throws other errors of `write`, and any error once the claim is lost or the process ends
 */
export function retryWhileStoreUnavailable<T>(
  held: Pick<HeldClaim, 'stopped'>,
  write: (isRepeated: boolean) => Promise<T>,
): Promise<T> {
  return tryAgain(write, () => held.stopped() === 'lost' || held.stopped() === 'shutdown', { ref: false });
}

/**
 * Repeats a write of an ending process, because a run that is not handed back counts as a lost worker.
 * @throws other errors of `write`, and any error after `HAND_BACK_WITHIN_MS`
 */
export function whileEnding<T>(write: (isRepeated: boolean) => Promise<T>): Promise<T> {
  const endsAtMs = performance.now() + HAND_BACK_WITHIN_MS;
  return tryAgain(write, () => performance.now() >= endsAtMs, { ref: true });
}

/** @param pause `ref`: a pause keeps the process alive */
async function tryAgain<T>(
  write: (isRepeated: boolean) => Promise<T>,
  isOver: () => boolean,
  pause: Readonly<{ ref: boolean }>,
): Promise<T> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await write(failures > 0);
    } catch (error) {
      if (!isStoreUnavailable(error) || isOver()) throw error;
      await delay(backOffMs(failures, STORE_RETRY_FIRST_MS, STORE_RETRY_CAP_MS), undefined, pause);
    }
  }
}
