import type { BatonError } from './baton-error.ts';

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 8_000;
/** If a service asks to wait longer than this, the caller decides. */
const MAX_RETRY_AFTER_MS = 30_000;

/** Statuses of a server, or of a proxy before it, that is unavailable for a moment. */
const AWAY_STATUSES: ReadonlySet<number | null> = new Set([502, 503, 504]);

/**
 * Whether to retry a failed request.
 * @param isRepeatable sending it twice has the same effect as sending it once
 */
export function isWorthRetrying(error: BatonError, isRepeatable: boolean): boolean {
  if ((error.retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) return false;
  // Refused before any work was done.
  if (error.code === 'rate_limited' || error.code === 'intake_full') return true;
  return isRepeatable && (error.code === 'unreachable' || AWAY_STATUSES.has(error.status));
}

/**
 * The pause before a retry, in milliseconds: doubled each time, at least `retryAfterMs`, and spread over half of
 * itself, so that clients that lost the same server do not all return at once.
 * @param attempt from 1, the first retry
 * @param random from 0 to 1
 */
export function retryDelayMs(attempt: number, random: number, retryAfterMs: number | null): number {
  const fullMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt - 1, 16));
  return Math.round(Math.max(retryAfterMs ?? 0, fullMs * (0.5 + random / 2)));
}

/** Resolves after the time. Rejects with the signal's reason when it aborts before. */
export function pause(durationMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, durationMs);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
