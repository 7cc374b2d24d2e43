import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  afterLeaseCheck,
  afterNoAnswer,
  type LeaseWatch,
  NEW_LEASE_WATCH,
  whoseLeasesCount,
} from '../../src/domain/liveness/lease-watch.ts';

const leaseDurationMs = 30_000;
const check = (watch: LeaseWatch, nowMs: number, uptimeMs: number) =>
  afterLeaseCheck(watch, { nowMs, leaseDurationMs, uptimeMs });

describe('leases are judged', () => {
  it('at once where Postgres is up for longer than a lease, of workers that are not registered any more', () => {
    expect(check(NEW_LEASE_WATCH, 1_000, 30_000).heldOffUntilMs).toBe(1_000);
    expect(check(NEW_LEASE_WATCH, 1_000, 86_400_000).heldOffUntilMs).toBeLessThan(0);
    expect(whoseLeasesCount(NEW_LEASE_WATCH, 0)).toBe('unregistered');
  });

  it('a lease after its first look, of registered workers: whoever starts knows of no outage before', () => {
    const first = check(NEW_LEASE_WATCH, 1_000, 86_400_000);
    const second = check(first, 11_000, 86_410_000);
    const whose = [first, second].flatMap((watch) => [30_999, 31_000].map((nowMs) => whoseLeasesCount(watch, nowMs)));
    expect(whose).toEqual(['unregistered', 'all', 'unregistered', 'all']);
    const out = check(afterNoAnswer(second), 40_000, 86_440_000);
    expect([69_999, 70_000].map((nowMs) => whoseLeasesCount(out, nowMs))).toEqual(['none', 'all']);
  });

  it('a lease after Postgres came up, by whoever starts then', () => {
    expect(check(NEW_LEASE_WATCH, 1_000, 10_000).heldOffUntilMs).toBe(21_000);
  });

  it('a lease after the first answer that follows an outage, however long Postgres itself is up', () => {
    const back = check(afterNoAnswer(NEW_LEASE_WATCH), 5_000, 86_400_000);
    expect(back).toMatchObject({ isAway: false, answeredAtMs: 5_000, heldOffUntilMs: 35_000 });
    expect(check(back, 6_000, 86_401_000).heldOffUntilMs).toBe(35_000);
  });

  it('a lease after the sweeper itself has not looked for long, whatever kept it', () => {
    const before = check(NEW_LEASE_WATCH, 0, 86_400_000);
    expect(check(before, 15_000, 86_415_000).heldOffUntilMs).toBeLessThan(0);
    expect(check(before, 15_001, 86_415_001).heldOffUntilMs).toBe(45_001);
    const short = (nowMs: number) => afterLeaseCheck(before, { nowMs, leaseDurationMs: 100, uptimeMs: 86_400_000 });
    expect(short(5_000).heldOffUntilMs).toBeLessThan(0);
    expect(short(5_001).heldOffUntilMs).toBe(5_101);
  });

  it('no later than in a lease, whatever the clock of Postgres says', () => {
    expect(check(NEW_LEASE_WATCH, 1_000, -3_600_000).heldOffUntilMs).toBe(31_000);
  });

  const look = fc.record({ answered: fc.boolean(), passedMs: fc.nat(20_000), uptimeMs: fc.nat(120_000) });
  it('never before every worker had a whole lease to renew its own since the last outage', () => {
    fc.assert(
      fc.property(fc.array(look), (looks) => {
        let watch = NEW_LEASE_WATCH;
        let nowMs = 0;
        const outages = [Number.NEGATIVE_INFINITY];
        for (const { answered, passedMs, uptimeMs } of looks) {
          nowMs += passedMs;
          const wasOut = watch.isAway || nowMs - (watch.answeredAtMs ?? nowMs) > leaseDurationMs / 2;
          watch = answered ? check(watch, nowMs, uptimeMs) : afterNoAnswer(watch);
          if (answered) outages.push(wasOut ? nowMs : nowMs - uptimeMs);
          expect(watch.isAway).toBe(!answered);
          expect(watch.heldOffUntilMs).toBe(Math.max(...outages) + leaseDurationMs);
        }
      }),
    );
  });
});
