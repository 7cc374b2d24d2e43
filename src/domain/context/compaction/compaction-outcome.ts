import type { ProviderErrorClass } from '../../model/provider-error-rules.ts';
import { afterPauseMs, planRetry, type RetryPlan } from '../../model/retry-policy.ts';
import type { ContextMeter } from '../meter/context-meter.ts';
import type { CompactionReason, ContextState } from '../meter/state.ts';
import { hasRoom } from '../meter/threshold-floor.ts';

/** Sizes of a view before and after a compaction, by the same meter and both without an anchor. */
export type CompactionSizes = Readonly<{
  tokensBefore: number;
  tokensAfter: number;
  /** Largest size that the new view may have. */
  targetTokens: number;
  /** Least reduction, as a share of `tokensBefore`. */
  reductionShare: number;
}>;

export type Refusal = 'not_smaller' | 'too_little' | 'above_target';

/** Refuses a compaction that does not help: the view stays as it was. Guards against inflation and loops. */
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

export type AfterFailure =
  /** The view still fits: the run continues unchanged, and compacts again once the view has grown. */
  | 'proceed'
  /** The request would be refused: the middle of the history is removed without a summary. */
  | 'remove_middle'
  /** Nothing is left to try: the run ends. */
  | 'exhausted';

export type FailureInput = Readonly<{
  reason: CompactionReason;
  /** Tokens of the next request, as the trigger measured them. */
  tokens: number;
  usableTokens: number;
  /** The middle could not be removed either, or there is nothing to remove. */
  isLastRung: boolean;
}>;

/** Decides what follows a failed summary. A refused request, or one above `usable`, must not be sent again. */
export function planAfterFailure({ reason, tokens, usableTokens, isLastRung }: FailureInput): AfterFailure {
  const fits = tokens <= usableTokens && reason !== 'overflow';
  // A client asked for a summary: without one the history stays.
  if (fits || reason === 'manual') return 'proceed';
  return isLastRung ? 'exhausted' : 'remove_middle';
}

/** A failed call to the summarizer, with the delay that its provider asked for. */
export type FailedCall = Readonly<{ class: ProviderErrorClass; retryAfterMs: number | null }>;

export type SummaryRetryInput = Readonly<{
  /** The action without another try. */
  after: AfterFailure;
  /** The call that failed; undefined: the summarizer answered, or no time was left to ask it. */
  failedCall: FailedCall | undefined;
  /** Earlier rounds of this compaction that failed for a transient reason. */
  failures: number;
  /** Pause that is left before the summarizer's provider may be asked; 0: none. */
  pausedMs: number;
  /** A random number in [0, 1). */
  jitter: number;
}>;

/** Plans another try of a summary that the run needs, after a transient error, with the delays of a failed step. */
export function planSummaryRetry({ after, failedCall, failures, pausedMs, jitter }: SummaryRetryInput): RetryPlan {
  if (after === 'proceed' || failedCall === undefined) return { retry: false };
  const plan = planRetry(failedCall.class, failures + 1, failedCall.retryAfterMs, jitter);
  return plan.retry ? { ...plan, delayMs: Math.max(plan.delayMs, afterPauseMs(pausedMs, jitter)) } : plan;
}

/** State of a compaction that is tried again: still pending, and not counted by the breaker. */
export function afterPassingFailure(state: ContextState, pending: NonNullable<ContextState['pending']>): ContextState {
  return { ...state, pending: { ...pending, failures: (pending.failures ?? 0) + 1 } };
}

/** State after a compaction. The anchor goes, because the old bill says nothing about the new view. */
export function afterCompaction(
  { thresholds }: Pick<ContextMeter, 'thresholds'>,
  state: ContextState,
  reason: CompactionReason,
  tokensAfter: number,
): ContextState {
  const counted = reason === 'manual' ? 0 : 1;
  return {
    ...state,
    anchor: null,
    pending: null,
    meter: { usedTokens: tokensAfter, usableTokens: thresholds.usableTokens },
    compactionsSinceStep: state.compactionsSinceStep + counted,
    failedAtTokens: null,
    floorTokens: hasRoom(thresholds, tokensAfter) ? null : tokensAfter,
    failedCompactions: 0,
  };
}

/** State after a compaction without a result. The view is unchanged, so its anchor still holds. */
export function afterFailedCompaction(state: ContextState, reason: CompactionReason, tokens: number): ContextState {
  // A client's failed request must not delay automatic compactions.
  if (reason === 'manual') return { ...state, pending: null };
  return {
    ...state,
    pending: null,
    compactionsSinceStep: state.compactionsSinceStep + 1,
    failedAtTokens: tokens,
    failedCompactions: state.failedCompactions + 1,
  };
}
