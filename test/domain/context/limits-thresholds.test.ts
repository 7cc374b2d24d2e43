import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { usableOf } from '../../../src/domain/context/limits/limits.ts';
import { type ThresholdShares, type Thresholds, thresholdsOf } from '../../../src/domain/context/limits/thresholds.ts';

const ofWindow = (contextWindow: number, maxOutput: number): Thresholds =>
  thresholdsOf(usableOf({ contextWindow, maxOutput }), contextWindow);

describe('the thresholds', () => {
  test('of an 8k window are all shares of what is usable', () => {
    expect(ofWindow(8_000, 4_000)).toEqual({
      usableTokens: 6_000,
      toolOutputTokens: 1_200,
      toolBatchTokens: 1_800,
      pruneAtTokens: 3_000,
      pruneProtectTokens: 1_500,
      pruneProtectTurns: 2,
      pruneMinimumTokens: 600,
      compactAtTokens: 4_800,
      compactByTokens: 5_880,
      tailTokens: 1_500,
      compactToTokens: 3_000,
      compactionReductionShare: 0.1,
      retryGrowthTokens: 600,
      summaryTokens: 600,
      streamStopAtTokens: 7_200,
    });
  });

  test('of a 200k window are the field’s numbers', () => {
    expect(ofWindow(200_000, 64_000)).toEqual({
      usableTokens: 168_000,
      toolOutputTokens: 33_600,
      toolBatchTokens: 50_400,
      pruneAtTokens: 84_000,
      pruneProtectTokens: 40_000,
      pruneProtectTurns: 2,
      pruneMinimumTokens: 16_800,
      compactAtTokens: 134_400,
      compactByTokens: 164_640,
      tailTokens: 20_000,
      compactToTokens: 84_000,
      compactionReductionShare: 0.1,
      retryGrowthTokens: 16_800,
      summaryTokens: 2_000,
      streamStopAtTokens: 180_000,
    });
  });

  test('of a 1M window protect no more than a fixed size', () => {
    expect(ofWindow(1_000_000, 128_000)).toMatchObject({
      pruneProtectTokens: 40_000,
      pruneMinimumTokens: 20_000,
      tailTokens: 20_000,
      summaryTokens: 2_000,
    });
  });

  test('compact a window that holds a short answer alone before 85 % of it are full', () => {
    expect(ofWindow(1_000_000, 128_000).compactByTokens).toBe(850_000);
    expect(ofWindow(100_000, 1_000).compactByTokens).toBe(85_000);
  });

  test('compact from where an agent says, whatever it costs', () => {
    expect(thresholdsOf(100_000, 128_000, { compactAt: 0.7 })).toMatchObject({
      compactAtTokens: 70_000,
      compactByTokens: 70_000,
    });
  });

  test('take an agent’s shares as they are', () => {
    expect(thresholdsOf(100_000, 128_000, { compactAt: 0.9, tail: 0.3, pruneAt: 0.7 })).toMatchObject({
      compactAtTokens: 90_000,
      tailTokens: 30_000,
      pruneAtTokens: 70_000,
    });
    expect(thresholdsOf(100_000, 128_000, { pruneAt: 0.9 }).pruneAtTokens).toBe(76_000);
  });

  test('keep prune and target below a low trigger: a target at the trigger compacts again at once', () => {
    expect(thresholdsOf(100_000, 128_000, { compactAt: 0.5, tail: 0.3 })).toMatchObject({
      pruneAtTokens: 31_250,
      compactAtTokens: 50_000,
      compactToTokens: 40_000,
      tailTokens: 30_000,
    });
  });

  test('are in order whatever an agent overrides: the tail fits the target, and the target is below the trigger', () => {
    const share = fc.double({ min: 0.05, max: 1, noNaN: true });
    const shares: fc.Arbitrary<ThresholdShares> = fc.record(
      { compactAt: share, tail: share, pruneAt: share },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.integer({ min: 3_000, max: 1_000_000 }), shares, (usable, overrides) => {
        const thresholds = thresholdsOf(usable, usable * 1.25, overrides);
        expect(thresholds.compactToTokens).toBeLessThan(thresholds.compactAtTokens);
        expect(thresholds.tailTokens).toBeLessThanOrEqual(thresholds.compactToTokens);
        expect(thresholds.pruneAtTokens).toBeLessThan(thresholds.compactAtTokens);
        expect(thresholds.compactAtTokens).toBeLessThanOrEqual(usable);
        expect(thresholds.summaryTokens).toBeGreaterThanOrEqual(400);
        expect(thresholds.summaryTokens).toBeLessThanOrEqual(2_000);
      }),
    );
  });
});
