/** What a sweeper remembers of the times in which nobody could renew a lease. By its own monotonic clock. */
export type LeaseWatch = Readonly<{ isAway: boolean; heldOffUntilMs: number }>;

export const NEW_LEASE_WATCH: LeaseWatch = { isAway: false, heldOffUntilMs: Number.NEGATIVE_INFINITY };

export type LeaseCheck = Readonly<{
  nowMs: number;
  leaseDurationMs: number;
  /** Since when Postgres is up: nobody could renew a lease before. */
  uptimeMs: number;
}>;

/**
 * After an answer of Postgres. Before `heldOffUntilMs` no lease counts as expired: after an outage, seen by the sweeper or
 * told by how long Postgres is up, everybody has a whole lease to say that he lives.
 */
export function afterLeaseCheck(watch: LeaseWatch, { nowMs, leaseDurationMs, uptimeMs }: LeaseCheck): LeaseWatch {
  const lastOutageMs = watch.isAway ? nowMs : nowMs - uptimeMs;
  return { isAway: false, heldOffUntilMs: Math.max(watch.heldOffUntilMs, lastOutageMs + leaseDurationMs) };
}

/** After a look that got no answer because Postgres, or the way to it, is gone. */
export function afterNoAnswer(watch: LeaseWatch): LeaseWatch {
  return { ...watch, isAway: true };
}
