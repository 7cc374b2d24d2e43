import type { ColumnType, Generated, JSONColumnType } from 'kysely';

export type Time = ColumnType<Date, Date | string, Date | string>;
export type DefaultTime = ColumnType<Date, Date | string | undefined, Date | string>;
/** Read as parsed JSON; written as text by `toJson`, which removes characters that jsonb refuses. */
export type Json = JSONColumnType<Record<string, unknown>>;

/** Sums over model calls. */
export type UsageColumns = {
  input_tokens: Generated<number>;
  output_tokens: Generated<number>;
  reasoning_tokens: Generated<number>;
  cache_read_tokens: Generated<number>;
  cache_write_tokens: Generated<number>;
  /** Null: the price of a call is unknown. */
  cost_usd: Generated<number | null>;
};
