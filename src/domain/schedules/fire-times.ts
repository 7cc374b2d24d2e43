import { Cron } from 'croner';

/** A cron expression of five fields, and the IANA zone whose clock it follows. */
export type Clock = Readonly<{ cron: string; timezone: string }>;

/**
 * The first fires after a time, in milliseconds since the Unix epoch. A fixed hour and minute fires once in an hour that
 * is repeated, and at the first instant after a gap that leaves it out. With a wildcard or a step in hours or minutes a
 * schedule follows real time: it fires in both passes of a repeated hour, and not in a gap. Pure.
 * @throws RangeError for a cron or zone that `clockProblem` refuses
 */
export function nextFires(clock: Clock, afterMs: number, count: number): readonly number[] {
  const parsed = parse(clock);
  const fires: number[] = [];
  let lastMs = afterMs;
  while (fires.length < count) {
    const next = parsed.nextRun(new Date(lastMs));
    if (next === null) break;
    lastMs = next.getTime();
    fires.push(lastMs);
  }
  return fires;
}

/** Spans that are searched for the last fire before now: even one every minute has few fires in the first with any. */
const SPANS_MS = [3_600_000, 86_400_000, 32 * 86_400_000, 366 * 86_400_000, 5 * 366 * 86_400_000];

/** The last fire from `fromMs` up to `untilMs`, both included. Null: there is none. Pure. */
export function lastFire(clock: Clock, fromMs: number, untilMs: number): number | null {
  const parsed = parse(clock);
  for (const spanMs of SPANS_MS) {
    const startMs = Math.max(fromMs, untilMs - spanMs) - 1;
    let found: number | null = null;
    let next = parsed.nextRun(new Date(startMs));
    while (next !== null && next.getTime() <= untilMs) {
      found = next.getTime();
      next = parsed.nextRun(next);
    }
    if (found !== null || startMs < fromMs) return found;
  }
  return null;
}

/** The field of a schedule that is wrong and how; null: none is. It must fire at least once after `nowMs`. Pure. */
export function clockProblem(
  clock: Clock,
  nowMs: number,
): Readonly<{ field: 'cron' | 'timezone'; message: string }> | null {
  if (!isZone(clock.timezone)) {
    return {
      field: 'timezone',
      message: 'no zone has this name: give one of the IANA database, such as Europe/Berlin',
    };
  }
  let parsed: Cron;
  try {
    parsed = parse(clock);
  } catch (error) {
    return { field: 'cron', message: cronProblem(clock.cron, error) };
  }
  return parsed.nextRun(new Date(nowMs)) === null ? { field: 'cron', message: 'it never fires' } : null;
}

const CRON_FIELDS = 5;

function cronProblem(cron: string, error: unknown): string {
  const count = cron.match(/\S+/g)?.length ?? 0;
  // The parser could take seconds and years as well, and says so.
  const said =
    error instanceof Error ? error.message.replace(/^CronPattern: /, '').replace(/\.$/, '') : 'not understood';
  const why = count === CRON_FIELDS ? said : `it has ${count} ${count === 1 ? 'field' : 'fields'}`;
  return `${why}. It takes five fields: minute, hour, day, month, weekday, such as "0 9 * * 1-5".`;
}

/** An offset such as `+02:00` is a zone to `Intl`, but has no daylight saving time, so it is not accepted. */
function isZone(timezone: string): boolean {
  if (!/^[A-Za-z]/.test(timezone)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone });
    return true;
  } catch {
    return false;
  }
}

function parse({ cron, timezone }: Clock): Cron {
  return new Cron(cron, { timezone, mode: '5-part', fixedTimeRule: 'no-wildcard', paused: true });
}
