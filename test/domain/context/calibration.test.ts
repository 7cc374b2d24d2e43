import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  CALIBRATED_FROM_TOKENS,
  type Calibration,
  type CalibrationSample,
  COLD_START_MARGIN,
  calibrationSchema,
  isCalibrated,
  learn,
  MAX_RATIO,
  MIN_RATIO,
  priorFrom,
  ratioOf,
  SAMPLE_REFUSALS,
  startCalibration,
} from '../../../src/domain/context/meter/calibration.ts';

const UNCHANGED = { model: false, tools: false, view: false, media: false };

/** A call whose prompt grew by `real` billed tokens while `estimated` were expected. */
const sampleOf = (real: number, estimated: number, rest: Partial<CalibrationSample> = {}): CalibrationSample => ({
  outcome: 'completed',
  previousInputTokens: 50_000,
  coveredTokens: 50_300,
  inputTokens: 50_300 + real,
  estimatedTokens: estimated,
  limitTokens: 168_000,
  changed: UNCHANGED,
  ...rest,
});

const learnAll = (state: Calibration, samples: readonly CalibrationSample[]): Calibration =>
  samples.reduce((current, sample) => learn(current, sample).state, state);

const calibrated = learnAll(startCalibration('claude', 'estimate', null), [sampleOf(5_000, 4_000)]);

describe('a session that has learned nothing', () => {
  test('starts from the prior of its family and tier', () => {
    expect(startCalibration('claude', 'estimate', null).prior).toBe(1.22);
    expect(startCalibration('openai', 'exact', null).prior).toBe(1.1);
    expect(startCalibration('qwen', 'estimate', null).prior).toBe(1.25);
  });

  test('starts from what earlier sessions learned about the model, where there is anything', () => {
    expect(startCalibration('claude', 'estimate', 1.4).prior).toBe(1.4);
    expect(startCalibration('claude', 'estimate', 99).prior).toBe(MAX_RATIO);
  });

  test('has a margin only where its family has no tokenizer', () => {
    expect(ratioOf(startCalibration('claude', 'estimate', null))).toBeCloseTo(1.22 * COLD_START_MARGIN);
    expect(ratioOf(startCalibration('openai', 'exact', null))).toBe(1.1);
    expect(ratioOf(startCalibration('qwen', 'exact', null))).toBeCloseTo(1.25 * COLD_START_MARGIN);
  });
});

describe('learning', () => {
  test('gives the cumulative ratio of real to estimated tokens, without any margin', () => {
    const state = learnAll(startCalibration('claude', 'estimate', null), [
      sampleOf(3_000, 2_500),
      sampleOf(700, 500),
      sampleOf(60, 20),
    ]);
    expect(isCalibrated(state)).toBe(true);
    expect(ratioOf(state)).toBeCloseTo(3_760 / 3_020);
  });

  test('changes nothing before enough was seen: the first samples are framing and noise', () => {
    const start = startCalibration('claude', 'estimate', null);
    const state = learnAll(start, [sampleOf(90, 20), sampleOf(1_000, CALIBRATED_FROM_TOKENS - 21)]);
    expect(isCalibrated(state)).toBe(false);
    expect(ratioOf(state)).toBe(ratioOf(start));
  });

  test('stays within its range', () => {
    const low = learnAll(startCalibration('claude', 'estimate', null), Array(10).fill(sampleOf(600, 2_000)));
    const high = learnAll(startCalibration('claude', 'estimate', null), Array(10).fill(sampleOf(14_000, 2_000)));
    expect(ratioOf(low)).toBe(MIN_RATIO);
    expect(ratioOf(high)).toBe(MAX_RATIO);
  });

  test('leaves a state that can be stored and read back', () => {
    expect(calibrationSchema.parse(JSON.parse(JSON.stringify(calibrated)))).toEqual(calibrated);
  });

  test('keeps the ratio within its range and the state valid, whatever the samples', () => {
    const sample = fc.record({ real: fc.integer({ min: -1_000, max: 90_000 }), estimated: fc.nat(40_000) });
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 30 }), (samples) => {
        const state = learnAll(
          startCalibration('unknown', 'estimate', null),
          samples.map(({ real, estimated }) => sampleOf(real, estimated)),
        );
        expect(calibrationSchema.safeParse(state).success).toBe(true);
        expect(ratioOf(state)).toBeGreaterThanOrEqual(MIN_RATIO);
        expect(ratioOf(state)).toBeLessThanOrEqual(MAX_RATIO);
      }),
    );
  });
});

// Field bug: OpenClaw applied its margin twice and compacted at 62 %.
describe('exactly one margin', () => {
  test('is in the ratio until the session is calibrated, and none after', () => {
    const start = startCalibration('claude', 'estimate', null);
    // Each sample equals the estimate without the margin, so only the margin can make a difference.
    const after = learnAll(start, [sampleOf(start.prior * 10_000, 10_000)]);
    expect(ratioOf(start)).toBeCloseTo(start.prior * COLD_START_MARGIN);
    expect(ratioOf(after)).toBeCloseTo(start.prior);
  });

  test('never gets into the prior, so it does not pile up over sessions', () => {
    let prior: number | null = null;
    for (let session = 0; session < 20; session++) {
      const start = startCalibration('claude', 'estimate', prior);
      expect(ratioOf(start)).toBeCloseTo(1.22 * COLD_START_MARGIN);
      prior = priorFrom(learnAll(start, [sampleOf(12_200, 10_000)]), prior);
    }
    expect(prior).toBeCloseTo(1.22);
  });

  test('is not taken over by a session that ended before it was calibrated', () => {
    expect(priorFrom(startCalibration('claude', 'estimate', null), null)).toBeNull();
    expect(priorFrom(startCalibration('claude', 'estimate', 1.3), 1.3)).toBe(1.3);
  });
});

describe('the prior of a model', () => {
  test('is what the first calibrated session learned, and then moves slowly', () => {
    expect(priorFrom(calibrated, null)).toBeCloseTo(1.25);
    expect(priorFrom(calibrated, 1.15)).toBeCloseTo(1.18);
  });
});

// One row is an aborted call, for which the SDK reports no usage (vercel/ai#7628).
describe('a sample is refused', () => {
  const changed = (key: keyof typeof UNCHANGED): Partial<CalibrationSample> => ({
    changed: { ...UNCHANGED, [key]: true },
  });
  const refusals = [
    ['of a call that was aborted', 'aborted', sampleOf(500, 400, { outcome: 'aborted' })],
    ['of a call that failed', 'failed', sampleOf(500, 400, { outcome: 'failed' })],
    ['after a change of the model', 'model_changed', sampleOf(500, 400, changed('model'))],
    ['after a change of the tools', 'tools_changed', sampleOf(500, 400, changed('tools'))],
    ['after a prune or a compaction', 'view_rewritten', sampleOf(500, 400, changed('view'))],
    ['with media', 'media_changed', sampleOf(500, 400, changed('media'))],
    ['without anything new', 'nothing_new', sampleOf(10, 0)],
    ['of a prompt that shrank', 'input_shrank', sampleOf(0, 400, { inputTokens: 30_000 })],
    ['of a prompt that did not move', 'suspicious_cap', sampleOf(0, 400, { inputTokens: 50_000 })],
    ['of a prompt at the limit', 'suspicious_cap', sampleOf(0, 400, { inputTokens: 168_000 })],
    ['of a prompt cut to a round context size', 'suspicious_cap', sampleOf(0, 400, { inputTokens: 65_536 })],
    ['of a prompt cut to half a context size plus 2', 'suspicious_cap', sampleOf(0, 400, { inputTokens: 65_538 })],
    ['of a prompt below what it certainly held', 'input_below_anchor', sampleOf(-20, 400)],
    ['that lost most of what was added', 'implausible_ratio', sampleOf(100, 10_000)],
    ['that got far more than what was added', 'implausible_ratio', sampleOf(20_000, 1_000)],
  ] as const;

  test.each(refusals)('%s', (_, reason, sample) => {
    expect(learn(calibrated, sample)).toEqual({ state: calibrated, refused: reason });
  });

  test('for every reason that there is', () => {
    expect(new Set(refusals.map(([, reason]) => reason))).toEqual(new Set(SAMPLE_REFUSALS));
  });

  test('but not for a small one with an odd ratio: framing weighs much there', () => {
    expect(learn(calibrated, sampleOf(60, 7)).refused).toBeNull();
  });

  // Field bug: DeepSeek-Reasonix#10245.
  test('so that a truncating server does not poison the ratio', () => {
    const truncated = Array.from({ length: 50 }, () => sampleOf(0, 8_000, { inputTokens: 50_000 }));
    expect(ratioOf(learnAll(calibrated, truncated))).toBe(ratioOf(calibrated));
  });
});
