import { SWEEP_INTERVAL_MS } from '../tunables.ts';

/** What a sweeper remembers of the times in which nobody could renew a lease. By its own monotonic clock. */
export type LeaseWatch = Readonly<{
  isAway: boolean;
  /** When Postgres last answered; null before that. */
  answeredAtMs: number | null;
  /** Before that no lease counts as expired. */
  heldOffUntilMs: number;
  /** Before that no lease of a registered worker does; null before the first answer. */
  registeredHeldOffUntilMs: number | null;
}>;

export const NEW_LEASE_WATCH: LeaseWatch = {
  isAway: false,
  answeredAtMs: null,
  heldOffUntilMs: Number.NEGATIVE_INFINITY,
  registeredHeldOffUntilMs: null,
};

export type LeaseCheck = Readonly<{
  nowMs: number;
  leaseDurationMs: number;
  /** Since when Postgres is up, by its clock: nobody could renew a lease before. */
  uptimeMs: number;
}>;

/** Sweeps that may be late before that means that somebody could not look, and perhaps nobody else could either. */
const SWEEPS_MISSED = 5;

/**
 * After an answer of Postgres. After an outage every worker has a whole lease to say that it lives. That there was one
 * is told by a look without an answer, by how long Postgres is up, or by how long the sweeper itself has not looked: an
 * outage may have met it elsewhere, or it stood still.
 */
export function afterLeaseCheck(watch: LeaseWatch, { nowMs, leaseDurationMs, uptimeMs }: LeaseCheck): LeaseWatch {
  const silentMs = nowMs - (watch.answeredAtMs ?? nowMs);
  const wasOut = watch.isAway || silentMs > Math.max(leaseDurationMs / 2, SWEEPS_MISSED * SWEEP_INTERVAL_MS);
  // A clock that was set back would have Postgres come up in the future.
  const lastOutageMs = wasOut ? nowMs : nowMs - Math.max(0, uptimeMs);
  const heldOffUntilMs = Math.max(watch.heldOffUntilMs, lastOutageMs + leaseDurationMs);
  const registeredHeldOffUntilMs = watch.registeredHeldOffUntilMs ?? nowMs + leaseDurationMs;
  return { isAway: false, answeredAtMs: nowMs, heldOffUntilMs, registeredHeldOffUntilMs };
}

/** Whose leases count as expired at this moment, by what was known before it. */
export function whoseLeasesCount(watch: LeaseWatch, nowMs: number): 'everybody' | 'unregistered' | 'nobody' {
  if (nowMs < watch.heldOffUntilMs) return 'nobody';
  return nowMs < (watch.registeredHeldOffUntilMs ?? Number.POSITIVE_INFINITY) ? 'unregistered' : 'everybody';
}

/** After a look that got no answer because Postgres, or the way to it, is gone. */
export function afterNoAnswer(watch: LeaseWatch): LeaseWatch {
  return { ...watch, isAway: true };
}
