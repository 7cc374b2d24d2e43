import { z } from 'zod';

const tokens = z.number().int().nonnegative();

/**
 * Tokens of one model call as the provider billed them. `inputTokens` is the whole prompt, its cached part included:
 * never add the cached tokens to it. `outputTokens` includes the reasoning tokens.
 */
export const usageSchema = z.strictObject({
  inputTokens: tokens,
  outputTokens: tokens,
  reasoningTokens: tokens,
  cacheReadTokens: tokens,
  cacheWriteTokens: tokens,
  totalTokens: tokens,
});

export type Usage = z.infer<typeof usageSchema>;

export const NO_USAGE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  totalTokens: 0,
};

/** The sum of two usages, for totals over steps (a step's own usage is never cumulative). */
export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
    cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
    totalTokens: a.totalTokens + b.totalTokens,
  };
}

/** The sum of two costs in US dollars. Null, unknown, where one of them is unknown. */
export const addCosts = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? null : a + b;
