/**
 * Billed tokens: `input` is the whole prompt (`cacheRead` and `cacheWrite` included), `output` includes `reasoning`.
 * Only the Messages protocol bills cache writes.
 */
export type ReplyUsage = Readonly<{
  input: number;
  cacheRead: number;
  cacheWrite: number;
  output: number;
  reasoning: number;
}>;
