import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { afterLeaseCheck, afterNoAnswer, type LeaseWatch, NEW_LEASE_WATCH } from '../../src/domain/lease-watch.ts';

const leaseDurationMs = 30_000;
const check = (watch: LeaseWatch, nowMs: number, uptimeMs: number) =>
  afterLeaseCheck(watch, { nowMs, leaseDurationMs, uptimeMs });

describe('leases are judged', () => {
  it('at once where Postgres is up for longer than a lease', () => {
    expect(check(NEW_LEASE_WATCH, 1_000, 30_000).heldOffUntilMs).toBe(1_000);
    expect(check(NEW_LEASE_WATCH, 1_000, 86_400_000).heldOffUntilMs).toBeLessThan(0);
  });

  it('a lease after Postgres came up, by whoever starts then', () => {
    expect(check(NEW_LEASE_WATCH, 1_000, 10_000).heldOffUntilMs).toBe(21_000);
  });

  it('a lease after the first answer that follows an outage, however long Postgres itself is up', () => {
    const back = check(afterNoAnswer(NEW_LEASE_WATCH), 5_000, 86_400_000);
    expect(back).toEqual({ isAway: false, heldOffUntilMs: 35_000 });
    expect(check(back, 6_000, 86_401_000)).toEqual(back);
  });

  const look = fc.record({ answered: fc.boolean(), passedMs: fc.nat(60_000), uptimeMs: fc.nat(120_000) });
  it('never before everybody had a whole lease to renew his since the last outage', () => {
    fc.assert(
      fc.property(fc.array(look), (looks) => {
        let watch = NEW_LEASE_WATCH;
        let nowMs = 0;
        let backSinceMs = Number.NEGATIVE_INFINITY;
        for (const { answered, passedMs, uptimeMs } of looks) {
          nowMs += passedMs;
          const wasAway = watch.isAway;
          watch = answered ? check(watch, nowMs, uptimeMs) : afterNoAnswer(watch);
          expect(watch.isAway).toBe(!answered);
          if (answered) backSinceMs = Math.max(backSinceMs, wasAway ? nowMs : nowMs - uptimeMs);
          expect(watch.heldOffUntilMs).toBe(backSinceMs + leaseDurationMs);
        }
      }),
    );
  });
});
