import { SWEEP_INTERVAL_MS } from '../tunables.ts';

/** A reconciler's memory of the times in which no worker could renew a lease. By its own monotonic clock. */
export type LeaseWatch = Readonly<{
  isAway: boolean;
  /** The last answer of Postgres; null: none yet. */
  answeredAtMs: number | null;
  /** Until then no lease counts as expired. */
  heldOffUntilMs: number;
  /** Until then no lease of a registered worker counts as expired; null before the first answer. */
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
  /** The uptime of Postgres, by its clock: before that no worker could renew a lease. */
  uptimeMs: number;
}>;

/** After a pause of so many sweeps a reconciler assumes that other workers could not act either. */
const SWEEPS_MISSED = 5;

/**
 * The memory after an answer of Postgres. After an outage every worker gets a whole lease to renew its own; signs of
 * one are a query without an answer, a short uptime of Postgres and a long pause of the reconciler itself.
 */
export function afterLeaseCheck(watch: LeaseWatch, { nowMs, leaseDurationMs, uptimeMs }: LeaseCheck): LeaseWatch {
  const silentMs = nowMs - (watch.answeredAtMs ?? nowMs);
  const wasOut = watch.isAway || silentMs > Math.max(leaseDurationMs / 2, SWEEPS_MISSED * SWEEP_INTERVAL_MS);
  // A clock that was set back makes the uptime negative.
  const lastOutageMs = wasOut ? nowMs : nowMs - Math.max(0, uptimeMs);
  const heldOffUntilMs = Math.max(watch.heldOffUntilMs, lastOutageMs + leaseDurationMs);
  const registeredHeldOffUntilMs = watch.registeredHeldOffUntilMs ?? nowMs + leaseDurationMs;
  return { isAway: false, answeredAtMs: nowMs, heldOffUntilMs, registeredHeldOffUntilMs };
}

/** The workers whose expired leases count now. */
export function whoseLeasesCount(watch: LeaseWatch, nowMs: number): 'all' | 'unregistered' | 'none' {
  if (nowMs < watch.heldOffUntilMs) return 'none';
  return nowMs < (watch.registeredHeldOffUntilMs ?? Number.POSITIVE_INFINITY) ? 'unregistered' : 'all';
}

/** The memory after a query without an answer, because Postgres or the network is gone. */
export function afterNoAnswer(watch: LeaseWatch): LeaseWatch {
  return { ...watch, isAway: true };
}
