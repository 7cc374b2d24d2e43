const MINUTE_MS = 60_000;

/** How a request stands to the rate of its key. */
export type RateDecision = Readonly<{
  isAllowed: boolean;
  /** Requests that may come at once after a minute of silence, and in every minute. */
  limit: number;
  /** Requests that may come at once after this one. */
  remaining: number;
  /** Until all of them may come at once again. */
  resetMs: number;
  /** Until one more may come; 0 when it may. */
  retryAfterMs: number;
}>;

/** What one request costs of the bucket, in milliseconds of its refilling. */
export const costMs = (perMinute: number): number => MINUTE_MS / perMinute;

/** A bucket that is used up this far takes no more. */
export const CAPACITY_MS = MINUTE_MS;

/**
 * What was decided, in the words of callers.
 * @param usedMs how much of the bucket is used, this request included if allowed
 */
export function toDecision(isAllowed: boolean, usedMs: number, perMinute: number): RateDecision {
  const cost = costMs(perMinute);
  return {
    isAllowed,
    limit: perMinute,
    // A hair's breadth of rounding must not cost a request.
    remaining: Math.max(0, Math.floor((CAPACITY_MS - usedMs) / cost + 1e-6)),
    resetMs: usedMs,
    retryAfterMs: isAllowed ? 0 : Math.max(0, usedMs + cost - CAPACITY_MS),
  };
}

/**
 * One request into a token bucket, which is the time at which it will be full again (the "generic cell rate
 * algorithm"): one number to store.
 * @param fullAtMs of the bucket; 0 for one that nobody has used
 */
export function takeToken(
  fullAtMs: number,
  nowMs: number,
  perMinute: number,
): Readonly<{ fullAtMs: number; decision: RateDecision }> {
  const usedMs = Math.max(0, fullAtMs - nowMs);
  const withThis = usedMs + costMs(perMinute);
  if (withThis > CAPACITY_MS + 1e-6) return { fullAtMs, decision: toDecision(false, usedMs, perMinute) };
  return { fullAtMs: nowMs + withThis, decision: toDecision(true, withThis, perMinute) };
}
