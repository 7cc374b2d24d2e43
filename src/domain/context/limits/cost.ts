import type { Usage } from '../../usage.ts';
import type { ModelEntry, TokenPrice } from './model-entry.ts';

const PER_TOKENS = 1_000_000;

/**
 * US dollars of one model call; null: the prices are unknown. Cached tokens are part of the input, billed at their own
 * price or else as ordinary input; the size of the whole input decides the tier.
 */
export function costOf(usage: Usage, { prices }: Pick<ModelEntry, 'prices'>): number | null {
  if (prices === null) return null;
  const { cacheReadTokens, cacheWriteTokens, inputTokens, outputTokens } = usage;
  const plainTokens = Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens);
  const allTokens = plainTokens + cacheReadTokens + cacheWriteTokens;
  const at = (price: TokenPrice): number => priceAt(price, allTokens);
  const dollars =
    plainTokens * at(prices.input) +
    cacheReadTokens * at(prices.cachedInput ?? prices.input) +
    cacheWriteTokens * at(prices.cacheWrite ?? prices.input) +
    outputTokens * at(prices.output);
  return prices.request + dollars / PER_TOKENS;
}

/** US dollars per million tokens in a call with this much input. */
function priceAt(price: TokenPrice, inputTokens: number): number {
  if (typeof price === 'number') return price;
  const reached = price.tiers.filter(({ aboveInputTokens }) => inputTokens > aboveInputTokens);
  const highest = reached.toSorted((a, b) => a.aboveInputTokens - b.aboveInputTokens).at(-1);
  return highest?.price ?? price.base;
}

/** Prices of a token from the cache, a token written to the cache and an output token, as shares of plain input. */
export type InputPrices = Readonly<{ read: number; write: number; output: number }>;

/** Prices of the large providers, for a model that is free or whose prices are unknown. */
const TYPICAL_PRICES: InputPrices = { read: 0.1, write: 1.25, output: 5 };

/** Prices of a model in a call with this much input. Without a price for cached tokens, `read` and `write` are 1. */
export function inputPricesOf({ prices }: Pick<ModelEntry, 'prices'>, inputTokens: number): InputPrices {
  if (prices === null) return TYPICAL_PRICES;
  const input = priceAt(prices.input, inputTokens);
  if (input === 0) return TYPICAL_PRICES;
  const output = priceAt(prices.output, inputTokens) / input;
  if (prices.cachedInput === null) return { read: 1, write: 1, output };
  const write = priceAt(prices.cacheWrite ?? prices.input, inputTokens);
  return { read: priceAt(prices.cachedInput, inputTokens) / input, write: write / input, output };
}
