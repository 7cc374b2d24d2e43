import type { Usage } from '../usage.ts';
import type { ModelEntry } from './model-registry.ts';

const PER_TOKENS = 1_000_000;

/**
 * US dollars of one model call. Cached input is part of the input and billed by its own price; where a provider has no
 * such price, as ordinary input. 0 for a model whose prices are not known.
 */
export function costOf(usage: Usage, { prices }: Pick<ModelEntry, 'prices'>): number {
  if (prices === null) return 0;
  const { cacheReadTokens, cacheWriteTokens, inputTokens, outputTokens } = usage;
  const plainTokens = Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens);
  const dollars =
    plainTokens * prices.input +
    cacheReadTokens * (prices.cachedInput ?? prices.input) +
    cacheWriteTokens * (prices.cacheWrite ?? prices.input) +
    outputTokens * prices.output;
  return dollars / PER_TOKENS;
}
