const MINUTE_MS = 60_000;

export type RateDecision = Readonly<{
  isAllowed: boolean;
  /** Requests per minute, and at once after a minute of silence. */
  limit: number;
  /** Requests that may follow at once. */
  remaining: number;
  /** Time until `limit` requests may come at once again. */
  resetMs: number;
  /** Time until the refused request may be repeated; 0: it was allowed. */
  retryAfterMs: number;
}>;

/** The share of one request in the bucket, in milliseconds of refill. */
export const costMs = (perMinute: number): number => MINUTE_MS / perMinute;

/** The size of a bucket. */
export const CAPACITY_MS = MINUTE_MS;

/** @param usedMs the used part of the bucket, with this request if it is allowed */
export function toDecision(isAllowed: boolean, usedMs: number, perMinute: number): RateDecision {
  const cost = costMs(perMinute);
  return {
    isAllowed,
    limit: perMinute,
    // A rounding error must not cost a request.
    remaining: Math.max(0, Math.floor((CAPACITY_MS - usedMs) / cost + 1e-6)),
    resetMs: usedMs,
    retryAfterMs: isAllowed ? 0 : Math.max(0, usedMs + cost - CAPACITY_MS),
  };
}

/** A token bucket, stored as the time at which it is full again, 0 if unused (the "generic cell rate algorithm"). */
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
