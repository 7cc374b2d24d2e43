import { describe, expect, it } from 'vitest';
import { costOf, inputPricesOf } from '../../../src/domain/context/limits/cost.ts';
import { addCosts } from '../../../src/domain/usage.ts';
import { usageOf } from './measure-view.ts';

const prices = { input: 10, cachedInput: 1, cacheWrite: 12.5, output: 50, request: 0 };
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

  it('is by the tier that the whole input reaches, for input, cache and output', () => {
    const tiered = (base: number, price: number) => ({ base, tiers: [{ aboveInputTokens: 200_000, price }] });
    const long = { ...prices, input: tiered(10, 20), cachedInput: tiered(1, 2), output: tiered(50, 75) };
    const below = usageOf({ inputTokens: 200_000, outputTokens: million });
    expect(costOf(below, { prices: long })).toBeCloseTo(2 + 50);
    const above = usageOf({ inputTokens: 400_000, cacheReadTokens: 300_000, outputTokens: million });
    expect(costOf(above, { prices: long })).toBeCloseTo(2 + 0.6 + 75);
  });

  it('has what the request itself costs', () => {
    expect(costOf(usageOf({}), { prices: { ...prices, request: 0.012 } })).toBeCloseTo(0.012);
  });

  it('is not known for a model whose prices nobody knows, nor is any sum with it', () => {
    expect(costOf(usageOf({ inputTokens: million }), { prices: null })).toBeNull();
    expect([addCosts(1, null), addCosts(null, 1), addCosts(1, 2)]).toEqual([null, null, 3]);
  });
});

describe('the prices of tokens, as shares of plain input,', () => {
  const share = (changed: Partial<typeof prices> | Record<string, unknown>) =>
    inputPricesOf({ prices: { ...prices, ...changed } }, 300_000);

  it('are those of the model, at the tier that the input reaches', () => {
    expect(share({})).toEqual({ read: 0.1, write: 1.25, output: 5 });
    expect(share({ cacheWrite: null })).toEqual({ read: 0.1, write: 1, output: 5 });
    expect(share({ cachedInput: { base: 1, tiers: [{ aboveInputTokens: 200_000, price: 5 }] } }).read).toBe(0.5);
  });

  it('of a cache are both that of plain input where cached tokens have no price of their own', () => {
    expect(share({ cachedInput: null })).toEqual({ read: 1, write: 1, output: 5 });
  });

  it('are the usual ones where no price is known, or nothing costs anything', () => {
    expect(inputPricesOf({ prices: null }, 0)).toEqual({ read: 0.1, write: 1.25, output: 5 });
    expect(share({ input: 0, cachedInput: 0, cacheWrite: 0, output: 0 })).toEqual({
      read: 0.1,
      write: 1.25,
      output: 5,
    });
  });
});
