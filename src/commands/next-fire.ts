import { nextFires } from '../domain/schedules/fire-times.ts';
import { derivedId } from '../platform/derived-id.ts';
import type { NextFire } from '../store/around/schedules.ts';

type Timed = Readonly<{ cron: string; timezone: string; jitter_ms: number }>;

/** The first fire after a time. Null: there is none. */
export function nextFireAfter(id: string, timed: Timed, afterMs: number): NextFire {
  const [fireAtMs] = nextFires(timed, afterMs, 1);
  return fireAtMs === undefined ? null : withJitter({ id, jitter_ms: timed.jitter_ms }, fireAtMs);
}

/** Adds the jitter to a fire. The schedule and the fire determine it, so every process computes the same time. */
export function withJitter(
  { id, jitter_ms: jitterMs }: Readonly<{ id: string; jitter_ms: number }>,
  fireAtMs: number,
): NextFire {
  const share = Number.parseInt(derivedId(id, String(fireAtMs), 'jitter').slice(0, 8), 16) / 2 ** 32;
  return { fireAt: new Date(fireAtMs), dueAt: new Date(fireAtMs + Math.floor(share * jitterMs)) };
}
