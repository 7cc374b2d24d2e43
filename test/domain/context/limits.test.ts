import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  applyLearned,
  budgetOptionsSchema,
  GUESSED_LIMITS,
  learnedLimitsSchema,
  type ModelLimits,
  maxOutputFor,
  modelLimitsSchema,
  reserveOf,
  usableOf,
} from '../../../src/domain/context/limits/limits.ts';

const limits = (contextWindow: number, maxOutput: number, inputLimit?: number): ModelLimits => ({
  contextWindow,
  maxOutput,
  ...(inputLimit !== undefined && { inputLimit }),
});

const anyLimits = fc
  .record({
    contextWindow: fc.integer({ min: 2_000, max: 2_000_000 }),
    maxOutput: fc.integer({ min: 1, max: 400_000 }),
    inputLimit: fc.option(fc.integer({ min: 1_000, max: 1_000_000 }), { nil: undefined }),
  })
  .map(({ contextWindow, maxOutput, inputLimit }) => limits(contextWindow, maxOutput, inputLimit));

// Field bug: opencode#31152, a reserve larger than a small window.
describe('the reserve and what is usable', () => {
  test.each([
    ['8k with 32k output (a reserve above the window loops for ever)', limits(8_000, 32_000), 2_000, 6_000],
    ['40k with 32k output', limits(40_000, 32_000), 10_000, 30_000],
    ['an unknown model', GUESSED_LIMITS, 16_000, 112_000],
    ['128k with 16k output', limits(128_000, 16_384), 16_384, 111_616],
    ['200k with 64k output', limits(200_000, 64_000), 32_000, 168_000],
    ['400k with an input limit', limits(400_000, 128_000, 272_000), 32_000, 272_000],
    ['1M', limits(1_000_000, 128_000), 32_000, 968_000],
    ['1M with an output of 4k', limits(1_000_000, 4_096), 4_096, 995_904],
  ])('for %s', (_, of, reserve, usable) => {
    expect(reserveOf(of)).toBe(reserve);
    expect(usableOf(of)).toBe(usable);
  });

  test('an agent may cap a large window', () => {
    expect(usableOf(limits(1_000_000, 128_000), { maxContextTokens: 250_000 })).toBe(250_000);
    expect(usableOf(limits(128_000, 16_384), { maxContextTokens: 250_000 })).toBe(111_616);
  });

  test('an agent may reserve more or less, within the output of the model and a quarter of the window', () => {
    expect(reserveOf(limits(200_000, 64_000), { outputReserve: 8_000 })).toBe(8_000);
    expect(reserveOf(limits(200_000, 64_000), { outputReserve: 48_000 })).toBe(48_000);
    expect(reserveOf(limits(200_000, 64_000), { outputReserve: 90_000 })).toBe(50_000);
    expect(reserveOf(limits(200_000, 10_000), { outputReserve: 48_000 })).toBe(10_000);
  });

  test('usable and reserve always fit the window together, and at least half of a window without other limits is usable', () => {
    fc.assert(
      fc.property(anyLimits, (of) => {
        expect(usableOf(of) + reserveOf(of)).toBeLessThanOrEqual(of.contextWindow);
        expect(usableOf(of)).toBeGreaterThan(0);
        if (of.inputLimit === undefined) expect(usableOf(of)).toBeGreaterThanOrEqual(of.contextWindow / 2);
      }),
    );
  });
});

test('an agent’s budget, and limits read back from the store, are whole positive numbers and nothing else', () => {
  for (const schema of [budgetOptionsSchema, learnedLimitsSchema]) {
    expect(schema.safeParse({}).success).toBe(true);
    expect(schema.safeParse({ maxOutput: 4_000 }).success).toBe(false);
  }
  expect(budgetOptionsSchema.safeParse({ maxContextTokens: 0 }).success).toBe(false);
  expect(learnedLimitsSchema.safeParse({ contextWindow: 8_192.5 }).success).toBe(false);
});

describe('the output of a request', () => {
  test('is the reserve while there is room', () => {
    expect(maxOutputFor(limits(200_000, 64_000), 100_000, 1_000)).toBe(32_000);
  });

  test('shrinks to what is left', () => {
    expect(maxOutputFor(limits(200_000, 64_000), 180_000, 1_000)).toBe(19_000);
    expect(maxOutputFor(limits(8_000, 32_000), 7_000, 100)).toBe(900);
  });

  test('is 0 when there is no room', () => {
    expect(maxOutputFor(limits(8_000, 32_000), 8_000, 0)).toBe(0);
    expect(maxOutputFor(limits(8_000, 32_000), 9_000, 500)).toBe(0);
  });

  test('never makes a request larger than the window, nor more than the model gives', () => {
    fc.assert(
      fc.property(anyLimits, fc.nat(2_000_000), fc.nat(10_000), (of, measured, margin) => {
        const output = maxOutputFor(of, measured, margin);
        expect(output).toBeGreaterThanOrEqual(0);
        expect(output).toBeLessThanOrEqual(of.maxOutput);
        if (output > 0) expect(measured + margin + output).toBeLessThanOrEqual(of.contextWindow);
      }),
    );
  });
});

describe('learned limits', () => {
  test('lower the window of a known model', () => {
    expect(applyLearned(limits(200_000, 64_000), { contextWindow: 100_000 })).toEqual(limits(100_000, 64_000));
    expect(applyLearned(limits(200_000, 64_000), { contextWindow: 32_768 })).toEqual(limits(32_768, 32_768));
  });

  test('lower its input limit', () => {
    expect(applyLearned(limits(1_050_000, 128_000, 922_000), { inputLimit: 272_000 })).toEqual(
      limits(1_050_000, 128_000, 272_000),
    );
    expect(applyLearned(limits(200_000, 64_000), { inputLimit: 150_000 })).toEqual(limits(200_000, 64_000, 150_000));
  });

  test('never raise the limits of a known model', () => {
    expect(applyLearned(limits(200_000, 64_000), { contextWindow: 1_000_000 })).toEqual(limits(200_000, 64_000));
    expect(applyLearned(limits(400_000, 64_000, 272_000), { inputLimit: 300_000 })).toEqual(
      limits(400_000, 64_000, 272_000),
    );
  });

  test('replace the guess for an unknown model, larger or smaller', () => {
    expect(applyLearned(GUESSED_LIMITS, { contextWindow: 131_072 }, true)).toEqual(limits(131_072, 16_000));
    expect(applyLearned(GUESSED_LIMITS, { contextWindow: 8_192 }, true)).toEqual(limits(8_192, 8_192));
    expect(applyLearned(GUESSED_LIMITS, { inputLimit: 100_000 }, true)).toEqual(limits(128_000, 16_000, 100_000));
  });

  test('change nothing when nothing was learned', () => {
    const of = limits(200_000, 64_000, 150_000);
    expect(applyLearned(of, null)).toEqual(of);
    expect(applyLearned(of, {})).toEqual(of);
  });

  test('leave limits that are valid, and what is usable no larger', () => {
    const learned = fc.record(
      {
        contextWindow: fc.integer({ min: 2_000, max: 2_000_000 }),
        inputLimit: fc.integer({ min: 1_000, max: 2_000_000 }),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(anyLimits, learned, (of, known) => {
        const after = applyLearned(of, known);
        expect(modelLimitsSchema.safeParse(after).success).toBe(true);
        expect(after.contextWindow).toBeLessThanOrEqual(of.contextWindow);
        expect(usableOf(after)).toBeLessThanOrEqual(Math.max(usableOf(of), 0) + reserveOf(of) - reserveOf(after));
      }),
    );
  });
});
