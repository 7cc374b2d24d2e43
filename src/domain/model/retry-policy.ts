import type { ProviderErrorClass } from './provider-error-rules.ts';

/**
 * What can make a failed model call succeed: `wait`: the same request later. `compact`: a shorter history; the context
 * layer compacts with force and takes the same step again. A silent truncation too: what the model saw was not the
 * history. `shrink_output`: the same request with a smaller `maxOutputTokens`; if that is refused as well, `compact`.
 * `strip_media`: the same history without its images and files. `drop_tools`: the same request without tools.
 * `none`: nothing that can be done without a person.
 */
export type Remedy = 'wait' | 'compact' | 'shrink_output' | 'strip_media' | 'drop_tools' | 'none';

/** Closed: a class without a remedy does not compile. Only `wait` is this policy's; all others change the request. */
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
  // A bug of ours: the same history is refused for ever, and a compaction would only hide it.
  malformed_history: 'none',
  model_unavailable: 'none',
  quota: 'none',
};

/** Attempts at one step, the first included. */
const MAX_ATTEMPTS = 6;

const BASE_DELAY_MS = 1_000;
const MAX_DELAY_MS = 60_000;
/** A provider may ask for longer than our own back-off, but not for hours. */
const MAX_RETRY_AFTER_MS = 15 * 60_000;

/**
 * Sessions that wait for the same provider do not come back at the same moment: spread over this share of the pause.
 */
const SPREAD_SHARE = 0.25;

/**
 * When a step whose provider is paused is tried: after the pause, and a little later, each session at its own moment.
 * @param jitter a random number in [0, 1)
 */
export const afterPauseMs = (leftMs: number, jitter: number): number => Math.ceil(leftMs * (1 + SPREAD_SHARE * jitter));

export type RetryPlan = Readonly<{ retry: false } | { retry: true; delayMs: number }>;

/**
 * Whether a failed model call is tried again as it was, and when: exponential with jitter, `retry-after` honoured up to
 * a cap. All who were told the same come back after it, each at its own moment.
 * @param attempt the attempt that failed, from 1
 * @param retryAfterMs what the provider asked for, or null
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
