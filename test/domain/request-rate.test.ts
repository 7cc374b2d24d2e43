import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CAPACITY_MS, takeToken } from '../../src/domain/request-rate.ts';

describe('takeToken', () => {
  it('lets a minute’s worth come at once, and then one at a time', () => {
    let fullAtMs = 0;
    const take = (nowMs: number) => {
      const taken = takeToken(fullAtMs, nowMs, 3);
      ({ fullAtMs } = taken);
      return taken.decision;
    };
    expect([1, 2, 3].map(() => take(1_000))).toMatchObject([
      { isAllowed: true, limit: 3, remaining: 2, resetMs: 20_000, retryAfterMs: 0 },
      { isAllowed: true, remaining: 1, resetMs: 40_000 },
      { isAllowed: true, remaining: 0, resetMs: 60_000 },
    ]);
    expect(take(1_000)).toMatchObject({ isAllowed: false, remaining: 0, resetMs: 60_000, retryAfterMs: 20_000 });
    expect(take(20_999)).toMatchObject({ isAllowed: false, retryAfterMs: 1 });
    expect(take(21_000)).toMatchObject({ isAllowed: true, remaining: 0 });
    expect(take(200_000)).toMatchObject({ isAllowed: true, remaining: 2 });
  });

  it('never lets more through than the bucket and its refilling hold, and keeps the promise of each answer', () => {
    const gaps = fc.array(fc.nat({ max: 30_000 }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), gaps, (perMinute, pauses) => {
        let [fullAtMs, nowMs, allowed] = [0, 1, 0];
        for (const pause of pauses) {
          nowMs += pause;
          const { fullAtMs: after, decision } = takeToken(fullAtMs, nowMs, perMinute);
          if (decision.isAllowed) allowed++;
          else
            expect(takeToken(fullAtMs, nowMs + decision.retryAfterMs + 0.001, perMinute).decision.isAllowed).toBe(true);
          expect(decision.remaining).toBeLessThan(perMinute + (decision.isAllowed ? 0 : 1));
          fullAtMs = after;
        }
        expect(allowed).toBeLessThanOrEqual(perMinute * (1 + nowMs / CAPACITY_MS) + 1e-3);
      }),
    );
  });
});
