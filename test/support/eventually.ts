const POLL_INTERVAL_MS = 10;
/** Far more than anything takes on a busy machine: that it happens is what matters, not when. */
const GIVE_UP_AFTER_MS = 90_000;

/**
 * Polls until `probe` gives something other than null or false.
 * @throws when it never does, naming what was waited for
 */
export async function eventually<T>(probe: () => Promise<T | null | false>, what: string): Promise<T> {
  const giveUpAtMs = performance.now() + GIVE_UP_AFTER_MS;
  while (performance.now() < giveUpAtMs) {
    const value = await probe();
    if (value !== null && value !== false) return value;
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
  throw new Error(`never happened: ${what}`);
}
