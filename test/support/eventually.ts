import { isStoreUnavailable } from '../../src/store/db/store-unavailable.ts';

const POLL_INTERVAL_MS = 10;
/** Far more than anything takes on a busy machine: that it happens is what matters, not when. */
const GIVE_UP_AFTER_MS = 90_000;

/**
 * Polls until `probe` gives something other than null or false. A look that a busy Postgres refuses has seen nothing.
 * @throws when it never does, naming what was waited for, with the last refusal as the cause
 */
export async function eventually<T>(probe: () => Promise<T | null | false>, what: string): Promise<T> {
  const giveUpAtMs = performance.now() + GIVE_UP_AFTER_MS;
  let refusal: unknown;
  while (performance.now() < giveUpAtMs) {
    const value = await probe().catch((error: unknown) => {
      if (!isStoreUnavailable(error)) throw error;
      refusal = error;
      return null;
    });
    if (value !== null && value !== false) return value;
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
  throw new Error(`never happened: ${what}`, { cause: refusal });
}
