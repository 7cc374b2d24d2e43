import { type Clock, lastFire, nextFires } from './fire-times.ts';

/** Rule for a fire that is due while the last run of the schedule is active. */
export const OVERLAPS = ['skip', 'queue', 'replace'] as const;
type Overlap = (typeof OVERLAPS)[number];

/** Rule for fires that were due while no worker ran: none fires, or the last of them fires late. */
export const CATCHUPS = ['none', 'last'] as const;
type Catchup = (typeof CATCHUPS)[number];

/** `new`: each fire has a session of its own. `same`: all fires are messages of one session. */
export const SESSION_KINDS = ['new', 'same'] as const;
type SessionKind = (typeof SESSION_KINDS)[number];

export const FIRE_RESULTS = ['fired', 'skipped', 'missed', 'failed'] as const;
export type FireResult = (typeof FIRE_RESULTS)[number];

export const MAX_SCHEDULES_PER_TENANT = 100;
export const MAX_CRON_CHARS = 100;
export const MAX_JITTER_MS = 3_600_000;
/** Fires of a schedule that are kept, to be read. */
export const MAX_KEPT_FIRES = 1_000;

/** A fire that is this late may stand for others after it: the last of them fires. */
const LATE_AFTER_MS = 60_000;

export type DueFire = Readonly<{
  clock: Clock;
  /** By the clock of the schedule, without jitter. */
  fireAtMs: number;
  /** With jitter. */
  dueAtMs: number;
  nowMs: number;
  /** The end of the last time that no worker looked at schedules for over a minute. */
  unwatchedUntilMs: number;
  sessionKind: SessionKind;
  overlap: Overlap;
  catchup: Catchup;
  /** The last run of the schedule has not ended. */
  isBusy: boolean;
  /** The fire was held before. */
  wasHeld: boolean;
}>;

/**
 * `hold`: the fire stays due until the last run has ended. `replace`: that run is cancelled first. `next`: the fire
 * after; null: there is none.
 */
export type FirePlan = Readonly<
  { kind: 'fire' | 'replace' | 'skip' | 'miss'; fireAtMs: number; nextMs: number | null } | { kind: 'hold' }
>;

/**
 * Decides about a fire that is due. Of several that were missed only the last one is looked at. A fire is missed if no
 * worker was there; if one was and is late, it fires late. Pure.
 */
export function planFire(due: DueFire): FirePlan {
  const { clock, fireAtMs, dueAtMs, nowMs, isBusy, overlap } = due;
  // A new session for each fire has no queue, so the fire itself waits; of several that do, the last one fires.
  if (isBusy && overlap === 'queue' && due.sessionKind === 'new') return { kind: 'hold' };
  const isLate = nowMs - dueAtMs > LATE_AFTER_MS;
  const wasUnwatched = due.unwatchedUntilMs - dueAtMs > LATE_AFTER_MS;
  const isMissed = isLate && wasUnwatched && due.catchup === 'none' && !due.wasHeld;
  const at = isLate ? (lastFire(clock, fireAtMs, nowMs) ?? fireAtMs) : fireAtMs;
  const [nextMs = null] = nextFires(clock, isLate ? Math.max(at, nowMs) : fireAtMs, 1);
  if (isMissed) return { kind: 'miss', fireAtMs: at, nextMs };
  if (!isBusy || overlap === 'queue') return { kind: 'fire', fireAtMs: at, nextMs };
  return { kind: overlap, fireAtMs: at, nextMs };
}
