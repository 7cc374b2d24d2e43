import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Budget, limitReached } from '../../src/domain/run/budget.ts';

const budget = (more: Partial<Budget> = {}): Budget => ({
  maxTokens: null,
  maxCostUsd: null,
  usedTokens: 0,
  usedCostUsd: 0,
  ...more,
});
const NOTHING = { tokens: 0, costUsd: 0 };

describe('the limits of a run', () => {
  it('is none where none was set, whatever was spent', () => {
    fc.assert(
      fc.property(fc.nat(), fc.double({ min: 0, noNaN: true }), (tokens, costUsd) => {
        expect(
          limitReached(budget({ usedTokens: tokens, usedCostUsd: costUsd }), { tokens, costUsd }, false),
        ).toBeNull();
      }),
    );
  });

  it('counts what was used before and what this step used', () => {
    const given = budget({ maxTokens: 1_000, usedTokens: 600 });
    expect(limitReached(given, { tokens: 399, costUsd: 9 }, false)).toBeNull();
    expect(limitReached(given, { tokens: 400, costUsd: 0 }, false)).toBe('budget');
    const paid = budget({ maxCostUsd: 0.5, usedCostUsd: 0.25 });
    expect(limitReached(paid, { tokens: 9_999, costUsd: 0.2 }, false)).toBeNull();
    expect(limitReached(paid, { tokens: 0, costUsd: 0.25 }, false)).toBe('budget');
  });

  it('names the deadline first: nothing is left to be bought', () => {
    expect(limitReached(budget(), NOTHING, true)).toBe('deadline');
    expect(limitReached(budget({ maxTokens: 1, usedTokens: 5 }), NOTHING, true)).toBe('deadline');
  });
});
