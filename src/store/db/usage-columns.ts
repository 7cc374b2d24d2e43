import { z } from 'zod';
import type { Usage } from '../../domain/usage.ts';

/** The columns of a session or a run with its tokens. */
export const TOKEN_COLUMNS = [
  'input_tokens',
  'output_tokens',
  'reasoning_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
] as const;

/** The checks of these columns in a row of a query that is written as text. */
export const tokenColumns = {
  input_tokens: z.int(),
  output_tokens: z.int(),
  reasoning_tokens: z.int(),
  cache_read_tokens: z.int(),
  cache_write_tokens: z.int(),
} satisfies Record<(typeof TOKEN_COLUMNS)[number], z.ZodInt>;

/** The usage in such a row. */
export function usageOf(row: Readonly<Record<(typeof TOKEN_COLUMNS)[number], number>>): Usage {
  return {
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
    reasoningTokens: row.reasoning_tokens,
    cacheReadTokens: row.cache_read_tokens,
    cacheWriteTokens: row.cache_write_tokens,
    totalTokens: row.input_tokens + row.output_tokens,
  };
}
