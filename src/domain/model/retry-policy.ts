import type { ProviderErrorClass } from './provider-error-rules.ts';

/**
 * The change that can make a failed model call succeed:
 * - `wait`: the same request later.
 * - `compact`: a forced compaction, then the same step. Also if the model did not see the history (silent truncation).
 * - `shrink_output`: the same request with a smaller `maxOutputTokens`; if that is refused as well, `compact`.
 * - `strip_media`: the same history without its images and files.
 * - `drop_tools`: the same request without tools.
 * - `none`: only a person can help.
 */
export type Remedy = 'wait' | 'compact' | 'shrink_output' | 'strip_media' | 'drop_tools' | 'none';

/** Exhaustive: a class without a remedy does not compile. This policy handles `wait`; the others change the request. */
export const REMEDIES: Readonly<Record<ProviderErrorClass, Remedy>> = {
  rate_limited: 'wait',
  overloaded: 'wait',
  transport: 'wait',
  timeout: 'wait',
  input_overflow: 'compact',
  silent_truncation: 'compact',
  output_reserve_overflow: 'shrink_output',
  byte_overflow: 'strip_media',
  tools_unsupported: 'drop_tools',
  auth: 'none',
  content_policy: 'none',
  invalid_request: 'none',
  // A bug of ours: the same history would always be refused, and a compaction would only hide it.
  malformed_history: 'none',
  model_unavailable: 'none',
  quota: 'none',
};

/** Attempts at one step, the first included. */
const MAX_ATTEMPTS = 6;

const BASE_DELAY_MS = 1_000;
const MAX_DELAY_MS = 60_000;
/** A provider may ask for longer than our own back-off, but not for hours. */
export const MAX_RETRY_AFTER_MS = 15 * 60_000;

/** Share of a pause over which the sessions that wait for the same provider are spread. */
const SPREAD_SHARE = 0.25;

/**
 * The pause, and a random share more, so that sessions come back at different moments.
 * @param jitter a random number in [0, 1)
 */
export const afterPauseMs = (leftMs: number, jitter: number): number => Math.ceil(leftMs * (1 + SPREAD_SHARE * jitter));

export type RetryPlan = Readonly<{ retry: false } | { retry: true; delayMs: number }>;

/**
 * Exponential back-off with jitter, or the provider's `retry-after` up to a cap, whichever is longer.
 * @param attempt the failed attempt, from 1
 * @param jitter a random number in [0, 1)
 */
export function planRetry(
  errorClass: ProviderErrorClass,
  attempt: number,
  retryAfterMs: number | null,
  jitter: number,
): RetryPlan {
  if (REMEDIES[errorClass] !== 'wait' || attempt >= MAX_ATTEMPTS) return { retry: false };
  const backoffMs = Math.min(MAX_DELAY_MS, BASE_DELAY_MS * 2 ** (attempt - 1)) * (0.5 + jitter / 2);
  const askedMs = Math.min(MAX_RETRY_AFTER_MS, retryAfterMs ?? 0);
  return { retry: true, delayMs: Math.ceil(Math.max(backoffMs, afterPauseMs(askedMs, jitter))) };
}
