import { Cron, CronPattern } from 'croner';

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
    const nextMs = nextFire(parsed, lastMs);
    if (nextMs === null) break;
    lastMs = nextMs;
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
    let nextMs = nextFire(parsed, startMs);
    while (nextMs !== null && nextMs <= untilMs) {
      found = nextMs;
      nextMs = nextFire(parsed, nextMs);
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
  let parsed: Parsed;
  try {
    parsed = parse(clock);
  } catch (error) {
    return { field: 'cron', message: cronProblem(clock.cron, error) };
  }
  return nextFire(parsed, nowMs) === null ? { field: 'cron', message: 'it never fires' } : null;
}

const CRON_FIELDS = 5;

function cronProblem(cron: string, error: unknown): string {
  const count = cron.match(/\S+/g)?.length ?? 0;
  // The parser could take seconds and years as well, and says so.
  const message =
    error instanceof Error ? error.message.replace(/^CronPattern: /, '').replace(/\.$/, '') : 'not understood';
  const why = count === CRON_FIELDS ? message : `it has ${count} ${count === 1 ? 'field' : 'fields'}`;
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

/**
 * `onWall`: the same pattern on a clock that is never changed; null for a schedule that follows real time.
 * `zoneClock` shows the zone's local time.
 */
type Parsed = Readonly<{ inZone: Cron; onWall: Cron | null; zoneClock: Intl.DateTimeFormat }>;

function parse({ cron, timezone }: Clock): Parsed {
  const options = { mode: '5-part', fixedTimeRule: 'no-wildcard' } as const;
  const inZone = new Cron(cron, { ...options, timezone, paused: true });
  const { isFixedTime } = new CronPattern(cron, undefined, options);
  return {
    inZone,
    onWall: isFixedTime ? new Cron(cron, { ...options, timezone: 'UTC', paused: true }) : null,
    zoneClock: new Intl.DateTimeFormat('en-US', { ...TO_THE_MINUTE, timeZone: timezone }),
  };
}

const TO_THE_MINUTE = {
  hourCycle: 'h23',
  year: 'numeric',
  month: 'numeric',
  day: 'numeric',
  hour: 'numeric',
  minute: 'numeric',
} as const;

/** The parser passes over a fixed time in a gap that ends with the day: in Greenland 23:00 is followed by 0:00. */
function nextFire({ inZone, onWall, zoneClock }: Parsed, afterMs: number): number | null {
  const nextMs = inZone.nextRun(new Date(afterMs))?.getTime() ?? null;
  if (onWall === null || nextMs === null) return nextMs;
  const untilMs = nextMs + offsetMs(zoneClock, nextMs);
  let wall = onWall.nextRun(new Date(afterMs + offsetMs(zoneClock, afterMs)));
  while (wall !== null && wall.getTime() < untilMs) {
    const gapEndMs = gapEndOf(zoneClock, wall.getTime());
    if (gapEndMs !== null && gapEndMs > afterMs && gapEndMs < nextMs) return gapEndMs;
    wall = onWall.nextRun(wall);
  }
  return nextMs;
}

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/** The first instant after a local time that the zone's clock leaves out. Null: the clock shows that time. */
function gapEndOf(zoneClock: Intl.DateTimeFormat, wallMs: number): number | null {
  const [before, after] = [offsetMs(zoneClock, wallMs - DAY_MS), offsetMs(zoneClock, wallMs + DAY_MS)];
  const shows = (offset: number): boolean => offsetMs(zoneClock, wallMs - offset) === offset;
  if (after <= before || shows(before) || shows(after)) return null;
  let [inside, past] = [wallMs - after, wallMs - before];
  while (past - inside > MINUTE_MS) {
    const middle = inside + Math.floor((past - inside) / MINUTE_MS / 2) * MINUTE_MS;
    if (offsetMs(zoneClock, middle) === before) inside = middle;
    else past = middle;
  }
  return past;
}

/** Local time less UTC. Whole minutes: no zone that still changes its clock has another offset. */
function offsetMs(zoneClock: Intl.DateTimeFormat, atMs: number): number {
  const minuteMs = Math.floor(atMs / MINUTE_MS) * MINUTE_MS;
  const local = Object.fromEntries(zoneClock.formatToParts(minuteMs).map(({ type, value }) => [type, Number(value)]));
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0 } = local;
  return Date.UTC(year, month - 1, day, hour, minute) - minuteMs;
}
