import { clockTime } from '../format.ts';
import type { Bar } from '../ui/bars.tsx';
import { WINDOWS, type Window } from './window.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

type Hour = Readonly<{ hour: string; count: number }>;

/** Counts over the whole window: per hour, or per day where hours would be too narrow. */
export function barsOf(
  hours: readonly Hour[],
  window: Window,
): Readonly<{ per: 'hour' | 'day'; bars: readonly Bar[] }> {
  const isHourly = window === '1d';
  const stepMs = isHourly ? HOUR_MS : DAY_MS;
  const lastMs = Math.floor(Date.now() / stepMs) * stepMs;
  const length = Math.ceil(WINDOWS[window] / stepMs) + 1;
  const counts = new Map<number, number>();
  for (const { hour, count } of hours) {
    const atMs = Math.floor(Date.parse(hour) / stepMs) * stepMs;
    counts.set(atMs, (counts.get(atMs) ?? 0) + count);
  }
  const bars = Array.from({ length }, (_, index): Bar => {
    const at = new Date(lastMs - (length - 1 - index) * stepMs).toISOString();
    return { at, words: isHourly ? `from ${clockTime(at)}` : at.slice(0, 10), value: counts.get(Date.parse(at)) ?? 0 };
  });
  return { per: isHourly ? 'hour' : 'day', bars };
}
