import { describe, expect, it } from 'vitest';
import { costOf } from '../../../src/domain/context/cost.ts';
import { usageOf } from './measure-view.ts';

const prices = { input: 10, cachedInput: 1, cacheWrite: 12.5, output: 50 };
const million = 1_000_000;

describe('the cost of a call', () => {
  it('is that of its input and its output', () => {
    expect(costOf(usageOf({ inputTokens: million, outputTokens: million / 10 }), { prices })).toBeCloseTo(15);
  });

  it('bills cached input by its own price and never twice', () => {
    const usage = usageOf({ inputTokens: million, cacheReadTokens: 800_000, cacheWriteTokens: 100_000 });
    expect(costOf(usage, { prices })).toBeCloseTo(1 + 0.8 + 1.25);
  });

  it('bills cached input as any other where the provider has no price for it', () => {
    const usage = usageOf({ inputTokens: million, cacheReadTokens: 800_000, cacheWriteTokens: 100_000 });
    expect(costOf(usage, { prices: { ...prices, cachedInput: null, cacheWrite: null } })).toBeCloseTo(10);
  });

  it('bills reasoning once: it is part of the output', () => {
    expect(costOf(usageOf({ outputTokens: million, reasoningTokens: million }), { prices })).toBeCloseTo(50);
  });

  it('is never below nothing, however a provider counts its cache', () => {
    expect(costOf(usageOf({ inputTokens: 10, cacheReadTokens: million }), { prices })).toBeCloseTo(1);
  });

  it('is nothing for a model whose prices nobody knows', () => {
    expect(costOf(usageOf({ inputTokens: million }), { prices: null })).toBe(0);
  });
});
