import fc from 'fast-check';
import { expect, it } from 'vitest';
import { nextFires } from '../../src/domain/schedules/fire-times.ts';
import { planFire } from '../../src/domain/schedules/plan-fire.ts';

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;
const FIRES = 10_000;

type Row = Readonly<{ fireAtMs: number; dueAtMs: number }>;
type Look = Readonly<{ pauseMs: number; dies: boolean; processes: number }>;

const clocks = fc.record({
  cron: fc.constantFrom('30 2 * * *', '0 * * * *', '*/15 * * * *', '15,45 1-3 * * *', '59 23 * * 1-5', '0 0,2,3 * * *'),
  timezone: fc.constantFrom(
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'Australia/Lord_Howe',
    'Africa/Casablanca',
    'Asia/Tehran',
  ),
});
/** Both changes of the year in every one of these zones that has any. */
const starts = fc.constantFrom(
  '2026-02-13',
  '2026-03-06',
  '2026-03-20',
  '2026-03-27',
  '2026-04-02',
  '2026-10-02',
  '2026-10-23',
  '2026-10-30',
);
const looks = fc.array(
  fc.record({
    pauseMs: fc.integer({ min: SECOND, max: 9 * SECOND }),
    dies: fc.boolean(),
    processes: fc.integer({ min: 1, max: 3 }),
  }),
  { minLength: 5, maxLength: 40 },
);

/** Looks again and again, as processes that may die before each commit do, and returns the fires that were committed. */
function play(
  clock: Readonly<{ cron: string; timezone: string }>,
  fromMs: number,
  untilMs: number,
  plays: readonly Look[],
) {
  const fired: number[] = [];
  const [firstMs] = nextFires(clock, fromMs, 1);
  let row: Row | null = firstMs === undefined ? null : { fireAtMs: firstMs, dueAtMs: firstMs };
  let nowMs = fromMs;
  for (let no = 0; row !== null && nowMs <= untilMs; no++) {
    const { pauseMs, dies, processes } = plays[no % plays.length] ?? { pauseMs: SECOND, dies: false, processes: 1 };
    // No look is needed while nothing is due.
    nowMs = Math.max(nowMs, row.dueAtMs) + pauseMs;
    for (let process = 0; process < processes; process++) {
      const seen: Row | null = row;
      // The lock, and the row as it is under it: another process has fired, and it is no longer due.
      if (seen === null || seen.dueAtMs > nowMs) continue;
      const plan = planFire({
        clock,
        ...seen,
        nowMs,
        unwatchedUntilMs: nowMs,
        sessionKind: 'new',
        overlap: 'skip',
        catchup: 'none',
        isBusy: false,
        wasHeld: false,
      });
      if (plan.kind !== 'fire') throw new Error(`${plan.kind} although it was in time`);
      // A process that dies has committed nothing. One that lives comes before the fire is a minute late.
      if (dies && process === 0 && nowMs - seen.dueAtMs < 40 * SECOND) continue;
      fired.push(plan.fireAtMs);
      row = plan.nextMs === null ? null : { fireAtMs: plan.nextMs, dueAtMs: plan.nextMs };
    }
  }
  return fired;
}

it('10 000 fires are each committed once, in order, whatever process dies, over both changes of the year', () => {
  let total = 0;
  fc.assert(
    fc.property(clocks, starts, looks, (clock, start, plays) => {
      // More than that many show nothing else, and each costs a search of the calendar.
      if (total > FIRES) return;
      const fromMs = Date.parse(`${start}T00:00:00Z`);
      const fired = play(clock, fromMs, fromMs + 5 * DAY, plays);
      const expected = nextFires(clock, fromMs, fired.length + 1);
      expect(fired).toEqual(expected.slice(0, -1));
      // The play has gone on to its end.
      expect(expected.at(-1)).toBeGreaterThan(fromMs + 5 * DAY - SECOND);
      total += fired.length;
    }),
    { numRuns: 180 },
  );
  expect(total).toBeGreaterThan(FIRES);
});
