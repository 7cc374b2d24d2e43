import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clockProblem, lastFire, nextFires } from '../../src/domain/schedules/fire-times.ts';
import { propertyRuns } from '../support/property-runs.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const ms = (time: string): number => Date.parse(time);
const iso = (times: readonly number[]): string[] => times.map((time) => new Date(time).toISOString().slice(0, 16));

const formats = new Map<string, Intl.DateTimeFormat>();

/** The local time of the zone in milliseconds, as if it were UTC. */
function wallOf(timezone: string, time: number): number {
  const format =
    formats.get(timezone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone: timezone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
    });
  formats.set(timezone, format);
  // As in 11/14/2023, 23:13: the parts by name would take three times as long.
  const [month = 1, day = 1, year = 0, hour = 0, minute = 0] = format.format(time).split(/\D+/).map(Number);
  return Date.UTC(year, month - 1, day, hour, minute);
}

/** The changes of the zone's offset within a year, to the minute: a day with a change is searched by halves. */
function changesOf(timezone: string, year: number): number[] {
  const offsetAt = (time: number): number => wallOf(timezone, time) - time;
  const changes: number[] = [];
  let offset = offsetAt(Date.UTC(year, 0, 1));
  for (let day = Date.UTC(year, 0, 1); day < Date.UTC(year + 1, 0, 1); day += DAY) {
    const offsetBefore = offset;
    offset = offsetAt(day + DAY);
    if (offset === offsetBefore) continue;
    let [before, after] = [day, day + DAY];
    while (after - before > MINUTE) {
      const middle = before + Math.floor((after - before) / MINUTE / 2) * MINUTE;
      if (offsetAt(middle) === offsetBefore) before = middle;
      else after = middle;
    }
    changes.push(after);
  }
  return changes;
}

type Pattern = Readonly<{ cron: string; isFixed: boolean; hours: readonly number[]; minutes: readonly number[] }>;

/** The expected fires. It reads the zone's clock minute by minute, without any arithmetic of zones. */
function oracle({ isFixed, hours, minutes }: Pattern, timezone: string, from: number, until: number): number[] {
  const matches = (wall: number): boolean => {
    const shown = new Date(wall);
    return hours.includes(shown.getUTCHours()) && minutes.includes(shown.getUTCMinutes());
  };
  const fires: number[] = [];
  // The latest time that the clock has shown: in a repeated hour it shows earlier times again.
  let latest = wallOf(timezone, from - DAY);
  for (let time = from - DAY + MINUTE; time <= until; time += MINUTE) {
    const wall = wallOf(timezone, time);
    let isDue = matches(wall) && (!isFixed || wall > latest);
    for (let left = latest + MINUTE; isFixed && left < wall; left += MINUTE) isDue ||= matches(left);
    if (isDue && time > from) fires.push(time);
    latest = Math.max(latest, wall);
  }
  return fires;
}

const some = (max: number) => fc.uniqueArray(fc.integer({ min: 0, max }), { minLength: 1, maxLength: 4 });
const every = (length: number) => Array.from({ length }, (_, at) => at);
const patterns: fc.Arbitrary<Pattern> = fc.oneof(
  fc.tuple(some(23), some(59)).map(([hours, minutes]) => ({
    cron: `${minutes.join(',')} ${hours.join(',')} * * *`,
    isFixed: true,
    hours,
    minutes,
  })),
  // Hours in which clocks are changed.
  fc.tuple(fc.constantFrom([0], [1], [2], [3], [1, 2], [2, 3], [0, 23]), some(59)).map(([hours, minutes]) => ({
    cron: `${minutes.join(',')} ${hours.join(',')} * * *`,
    isFixed: true,
    hours,
    minutes,
  })),
  some(59).map((minutes) => ({ cron: `${minutes.join(',')} * * * *`, isFixed: false, hours: every(24), minutes })),
  fc.constantFrom(5, 10, 15, 20, 30).map((step) => ({
    cron: `*/${step} * * * *`,
    isFixed: false,
    hours: every(24),
    minutes: every(60).filter((minute) => minute % step === 0),
  })),
);

const zones = Intl.supportedValuesOf('timeZone');
const changes = fc
  .tuple(fc.constantFrom(...zones), fc.integer({ min: 2015, max: 2037 }))
  .map(([timezone, year]) => ({ timezone, at: changesOf(timezone, year) }))
  .filter(({ at }) => at.length > 0)
  .chain(({ timezone, at }) => fc.record({ timezone: fc.constant(timezone), at: fc.constantFrom(...at) }));

describe('the fires of a schedule', () => {
  it('are those that a look at the clock each minute gives, around every change of every zone', () => {
    fc.assert(
      fc.property(changes, patterns, ({ timezone, at }, pattern) => {
        const [from, until] = [at - DAY, at + DAY];
        const expected = oracle(pattern, timezone, from, until);
        const given = nextFires({ cron: pattern.cron, timezone }, from, expected.length + 1);
        expect(iso(given.filter((time) => time <= until))).toEqual(iso(expected));
      }),
      { numRuns: propertyRuns(2) },
    );
  });

  it('come one by one as they come together, from whatever time in between one asks', () => {
    fc.assert(
      fc.property(changes, patterns, fc.integer({ min: -DAY, max: DAY }), ({ timezone, at }, { cron }, shift) => {
        const [first = 0, second = 0] = nextFires({ cron, timezone }, at + shift, 2);
        expect(first).toBeGreaterThan(at + shift);
        expect(nextFires({ cron, timezone }, first, 1)).toEqual([second]);
        expect(nextFires({ cron, timezone }, Math.floor((first + second) / 2), 1)).toEqual([second]);
        expect(lastFire({ cron, timezone }, at + shift, first)).toBe(first);
        expect(lastFire({ cron, timezone }, first + 1, second - 1)).toBeNull();
      }),
      { numRuns: propertyRuns(2) },
    );
  });

  it.each([
    [
      'a fixed time in the gap of Berlin',
      '30 2 * * *',
      'Europe/Berlin',
      '2026-03-28T12:00Z',
      ['2026-03-29T01:00', '2026-03-30T00:30'],
    ],
    [
      'a fixed time in the gap with which a day of Greenland ends',
      '1 23 * * *',
      'America/Godthab',
      '2026-03-28T00:30Z',
      ['2026-03-28T01:01', '2026-03-29T01:00', '2026-03-30T00:01'],
    ],
    [
      'the same beside a time after the gap',
      '1 23,0 * * *',
      'America/Godthab',
      '2026-03-28T12:00Z',
      ['2026-03-29T01:00', '2026-03-29T01:01', '2026-03-30T00:01'],
    ],
    [
      'a fixed time that Berlin repeats',
      '30 2 * * *',
      'Europe/Berlin',
      '2026-10-24T12:00Z',
      ['2026-10-25T00:30', '2026-10-26T01:30'],
    ],
    [
      'each hour of the autumn of Berlin',
      '0 * * * *',
      'Europe/Berlin',
      '2026-10-24T23:30Z',
      ['2026-10-25T00:00', '2026-10-25T01:00', '2026-10-25T02:00'],
    ],
    [
      'midnight where it is left out',
      '0 0 * * *',
      'America/Sao_Paulo',
      '2018-11-03T12:00Z',
      ['2018-11-04T03:00', '2018-11-05T02:00'],
    ],
    [
      'half an hour of Lord Howe',
      '45 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-04T00:00Z',
      ['2026-04-04T14:45', '2026-04-05T15:15'],
    ],
    ['the end of February', '0 12 29 2 *', 'UTC', '2026-01-01T00:00Z', ['2028-02-29T12:00', '2032-02-29T12:00']],
  ])('are right for %s', (_, cron, timezone, from, expected) => {
    expect(iso(nextFires({ cron, timezone }, ms(from), expected.length))).toEqual(expected);
  });

  it('are found far back without a walk through all of them', () => {
    const started = ms('2020-01-01T00:00Z');
    const now = ms('2026-05-05T12:34Z');
    expect(iso([lastFire({ cron: '* * * * *', timezone: 'UTC' }, started, now) ?? 0])).toEqual(['2026-05-05T12:34']);
    expect(iso([lastFire({ cron: '0 9 1 1 *', timezone: 'UTC' }, started, now) ?? 0])).toEqual(['2026-01-01T09:00']);
    expect(lastFire({ cron: '0 9 1 1 *', timezone: 'UTC' }, ms('2026-01-02T00:00Z'), now)).toBeNull();
  });
});

describe('a clock', () => {
  const now = ms('2026-01-01T00:00Z');
  it.each([
    ['0 9 * * 1-5', 'Europe/Berlin', null],
    ['*/5 * * * *', 'UTC', null],
    ['0 0 L * *', 'Etc/UTC', null],
    ['0 9 * *', 'UTC', 'cron'],
    ['* * * * * *', 'UTC', 'cron'],
    ['', 'UTC', 'cron'],
    ['every morning at nine please', 'UTC', 'cron'],
    ['60 * * * *', 'UTC', 'cron'],
    ['0 0 31 2 *', 'UTC', 'cron'],
    ['0 9 * * *', 'Mars/Base', 'timezone'],
    ['0 9 * * *', '+02:00', 'timezone'],
    ['0 9 * * *', '', 'timezone'],
  ])('%s in %s', (cron, timezone, field) => {
    expect(clockProblem({ cron, timezone }, now)?.field ?? null).toBe(field);
  });

  it.each([
    ['every morning', 'it has 2 fields. It takes five fields:'],
    ['60 * * * *', 'Invalid value for minute: 60. It takes five fields:'],
  ])('says what of %s is wrong, in its own words where the parser would take other fields', (cron, message) => {
    expect(clockProblem({ cron, timezone: 'UTC' }, now)?.message).toContain(message);
  });
});
