import type { ProviderErrorClass } from '../../model/provider-error-rules.ts';
import { afterPauseMs, planRetry, type RetryPlan } from '../../model/retry-policy.ts';
import type { ContextMeter } from '../meter/context-meter.ts';
import type { CompactionReason, ContextState } from '../meter/state.ts';

/** Sizes of a view before and after a compaction, by the same meter and both without an anchor. */
export type CompactionSizes = Readonly<{
  tokensBefore: number;
  tokensAfter: number;
  /** What the view may be afterwards. */
  targetTokens: number;
  /** What a compaction takes off at least, as a share of `tokensBefore`. */
  reductionShare: number;
}>;

/** Why the result of a compaction is not taken. */
export type Refusal = 'not_smaller' | 'too_little' | 'above_target';

/** The guard against inflation and against loops: a compaction that does not help is undone, not repeated. */
export function judgeSizes({
  tokensBefore,
  tokensAfter,
  targetTokens,
  reductionShare,
}: CompactionSizes): Refusal | null {
  if (tokensAfter >= tokensBefore) return 'not_smaller';
  if (tokensAfter > tokensBefore * (1 - reductionShare)) return 'too_little';
  return tokensAfter > targetTokens ? 'above_target' : null;
}

/** What a failed summary leads to. */
export type AfterFailure =
  /** The view is as it was and still fits: the run goes on, and tries again once the view has grown. */
  | 'proceed'
  /** The request would be refused: the middle goes without a summary. */
  | 'remove_middle'
  /** Nothing is left to try. */
  | 'exhausted';

export type FailureInput = Readonly<{
  reason: CompactionReason;
  /** The next request as the trigger measures it. */
  tokens: number;
  usableTokens: number;
  /** The middle could not be removed either, or there is nothing to remove. */
  isLastRung: boolean;
}>;

/**
 * What becomes of a compaction that brought no summary. Below `usable` nothing is lost by going on; above it, and where
 * the provider itself refused the request, the same request must not be sent again.
 */
export function planAfterFailure({ reason, tokens, usableTokens, isLastRung }: FailureInput): AfterFailure {
  const fits = tokens <= usableTokens && reason !== 'overflow';
  // Somebody asked for a summary: without one the history stays.
  if (fits || reason === 'manual') return 'proceed';
  return isLastRung ? 'exhausted' : 'remove_middle';
}

/** A call to the summarizer that failed, and when its provider asked to be tried again. */
export type FailedCall = Readonly<{ class: ProviderErrorClass; retryAfterMs: number | null }>;

export type SummaryRetryInput = Readonly<{
  /** What the failure leads to where the summary is not tried again. */
  after: AfterFailure;
  /**
   * The call that the summary failed with; undefined where the summarizer answered, or there was no time left to ask.
   */
  failedCall: FailedCall | undefined;
  /** Rounds of this compaction that failed for what passes by itself, before this one. */
  failures: number;
  /** The summarizer's provider may not be asked for so long; 0: it may. */
  pausedMs: number;
  /** A random number in [0, 1). */
  jitter: number;
}>;

/**
 * Whether a failed summary is worth waiting for, as a failed step is and for as long: only where something is lost
 * without it, and the provider may answer by itself later.
 */
export function planSummaryRetry({ after, failedCall, failures, pausedMs, jitter }: SummaryRetryInput): RetryPlan {
  if (after === 'proceed' || failedCall === undefined) return { retry: false };
  const plan = planRetry(failedCall.class, failures + 1, failedCall.retryAfterMs, jitter);
  return plan.retry ? { ...plan, delayMs: Math.max(plan.delayMs, afterPauseMs(pausedMs, jitter)) } : plan;
}

/**
 * The state of a compaction that is tried again: still pending. It is no compaction in vain, so the
 * breaker does not count it.
 */
export function afterPassingFailure(state: ContextState, pending: NonNullable<ContextState['pending']>): ContextState {
  return { ...state, pending: { ...pending, failures: (pending.failures ?? 0) + 1 } };
}

/** The state once a compaction is written. What the provider billed before says nothing of the new view. */
export function afterCompaction(
  { thresholds }: Pick<ContextMeter, 'thresholds'>,
  state: ContextState,
  reason: CompactionReason,
  tokensAfter: number,
): ContextState {
  const counted = reason === 'manual' ? 0 : 1;
  // Where even the smallest view is above the trigger, the next try waits for it to grow.
  const isAbove = tokensAfter >= thresholds.compactAtTokens;
  return {
    ...state,
    anchor: null,
    pending: null,
    meter: { usedTokens: tokensAfter, usableTokens: thresholds.usableTokens },
    compactionsSinceStep: state.compactionsSinceStep + counted,
    failedAtTokens: isAbove ? tokensAfter : null,
  };
}

/**
 * The state after a compaction that brought nothing. The view is as it was, so what was measured of it still holds.
 * @param tokens of the next request, as the trigger measured it
 */
export function afterFailedCompaction(state: ContextState, reason: CompactionReason, tokens: number): ContextState {
  // What somebody asked for says nothing of what the thresholds will ask for.
  if (reason === 'manual') return { ...state, pending: null };
  return { ...state, pending: null, compactionsSinceStep: state.compactionsSinceStep + 1, failedAtTokens: tokens };
}
