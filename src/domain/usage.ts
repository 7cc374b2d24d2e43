import { z } from 'zod';

const tokens = z.number().int().nonnegative();

/** Billed tokens of one model call. Cached tokens are part of `inputTokens`, reasoning tokens of `outputTokens`. */
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

/** For totals over steps: the usage of a step is never cumulative. */
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

/** In US dollars. Null, unknown, if either is unknown. */
export const addCosts = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? null : a + b;
