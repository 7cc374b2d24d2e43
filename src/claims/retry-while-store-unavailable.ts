import { setTimeout as delay } from 'node:timers/promises';
import { HAND_BACK_WITHIN_MS, STORE_RETRY_CAP_MS, STORE_RETRY_FIRST_MS } from '../domain/tunables.ts';
import { isStoreUnavailable } from '../store/store-unavailable.ts';
import type { HeldClaim } from './claim-keeper.ts';

/**
 * Carries out one write of a claimed job, and again for as long as Postgres is away: what the job did is worth waiting
 * for, and its claim is renewed by heartbeats even after its lease. A write may be committed although its answer was
 * lost, so that it has to be one that does no harm twice: fenced by what it commits, or the same as before.
 * `isRepeated` says that an earlier try has failed.
 * @throws what `write` throws for other reasons, and at once when the claim is lost or the process ends
 */
export function retryWhileStoreUnavailable<T>(
  held: Pick<HeldClaim, 'stopped'>,
  write: (isRepeated: boolean) => Promise<T>,
): Promise<T> {
  return tryAgain(write, () => held.stopped() === 'lost' || held.stopped() === 'shutdown', { ref: false });
}

/**
 * The same for what a process writes that ends: a run that is not handed back counts as one whose worker has died.
 * @throws what `write` throws for other reasons, and where Postgres is away for longer than the
 * end of a process may take
 */
export function whileEnding<T>(write: () => Promise<T>): Promise<T> {
  const endsAtMs = performance.now() + HAND_BACK_WITHIN_MS;
  return tryAgain(write, () => performance.now() >= endsAtMs, { ref: true });
}

/** @param pause whether a pause keeps the process alive */
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
      await delay(Math.min(STORE_RETRY_FIRST_MS * 2 ** failures, STORE_RETRY_CAP_MS), undefined, pause);
    }
  }
}
