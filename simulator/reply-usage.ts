/**
 * Tokens as billed: `input` is the whole prompt (`cacheRead` and `cacheWrite` included), `output` includes `reasoning`.
 * Only the Messages protocol bills what is written to the cache.
 */
export type ReplyUsage = Readonly<{
  input: number;
  cacheRead: number;
  cacheWrite: number;
  output: number;
  reasoning: number;
}>;
