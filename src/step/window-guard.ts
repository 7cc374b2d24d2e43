import type { TokenCounter } from '../domain/context/meter/tokens.ts';

export type WindowGuard = Readonly<{
  /** Aborted once request and answer together have reached the limit. */
  signal: AbortSignal;
  heard: (text: string) => void;
}>;

/** Deltas are counted in batches, because each count rounds up. */
const COUNTED_CHARS = 1_000;

/**
 * Watches an answer grow towards the end of the window.
 * @param requestTokens measure of the request
 * @param stopAtTokens of request and answer together; infinite for no limit
 * @param ratio real tokens per counted token
 */
export function createWindowGuard(
  requestTokens: number,
  stopAtTokens: number,
  ratio: number,
  count: TokenCounter,
): WindowGuard {
  const controller = new AbortController();
  let usedTokens = requestTokens;
  let uncounted = '';
  return {
    signal: controller.signal,
    heard(text) {
      uncounted += text;
      if (uncounted.length < COUNTED_CHARS) return;
      usedTokens += ratio * count(uncounted);
      uncounted = '';
      if (usedTokens >= stopAtTokens) controller.abort(new Error('the window is nearly full'));
    },
  };
}
