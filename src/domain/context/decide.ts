import type { ErrorRecord } from '../errors.ts';
import { maxOutputFor } from './limits/limits.ts';
import { isStartedBy } from './limits/policy.ts';
import type { ContextMeter } from './meter/context-meter.ts';
import type { Measurement } from './meter/measure.ts';
import type { CompactionReason, ContextState } from './meter/state.ts';
import { compactsAgainAt } from './meter/threshold-floor.ts';

/** The next action: send the request, change the view first, or end the run. */
export type ContextDecision = Readonly<
  | {
      kind: 'proceed';
      /** Always sent: a provider's default is the model's maximum. */
      maxOutputTokens: number;
      /** The window leaves less room than the reserve: an answer that ends with `length` was cut by the window. */
      isWindowBound: boolean;
    }
  | { kind: 'prune' }
  | { kind: 'compact'; reason: CompactionReason; force: boolean }
  | { kind: 'exhausted'; error: ErrorRecord }
>;

/** Whether a prune or a compaction of this view pays. Each call may read the whole view. */
export type Worth = Readonly<{ prune: () => boolean; compaction: () => boolean }>;

/** The breaker: most compactions in a row without a successful model step in between. `manual` ones do not count. */
export const MAX_COMPACTIONS_WITHOUT_STEP = 3;

/**
 * Decides the next action before a request, in this order:
 * 1. If instructions and tools alone do not fit, the run ends.
 * 2. A prune, if it is due and worthwhile: it is cheaper than a compaction.
 * 3. A compaction, if it pays or the window is full. After a failed one the view has to grow first.
 * 4. Above `usable` a compaction in any case. The run ends instead after `MAX_COMPACTIONS_WITHOUT_STEP` in a row, or if
 *    the strategy is `manual`.
 *
 * @param worth called only if a prune or a compaction may be due
 * @param mostOutputTokens limit of the answer by the agent or the provider
 * @param isLast no request follows this one: as long as it fits, nothing is removed for later ones
 */
export function decideContext(
  meter: ContextMeter,
  measurement: Measurement,
  state: ContextState,
  {
    worth,
    mostOutputTokens = Number.POSITIVE_INFINITY,
    isLast = false,
  }: Readonly<{ worth: Worth; mostOutputTokens?: number | undefined; isLast?: boolean }>,
): ContextDecision {
  const { thresholds, policy } = meter;
  const used = measurement.total;
  // The share of instructions and tools is read only if it matters, because it takes the whole view.
  if (used > thresholds.usableTokens && fixedTokens(measurement) > thresholds.usableTokens) {
    return { kind: 'exhausted', error: exhausted(meter, measurement, 'The instructions and tools alone are larger') };
  }
  const outputTokens = Math.min(
    mostOutputTokens,
    maxOutputFor(meter.limits, used, meter.marginOf(measurement, state), policy),
  );
  // `usable` leaves at least half of the reserve for the answer, with any margin.
  const isOver = used > thresholds.usableTokens;
  const isPruneDue = policy.prune.enabled && used >= thresholds.pruneAtTokens && (isOver || !isLast);
  if (isPruneDue && worth.prune()) return { kind: 'prune' };
  if (!isOver && (isLast || !isCompactionDue(meter, measurement, state, worth))) {
    const roomTokens = Math.min(mostOutputTokens, maxOutputFor(meter.limits, 0, 0, policy));
    return { kind: 'proceed', maxOutputTokens: outputTokens, isWindowBound: outputTokens < roomTokens };
  }
  if (!isStartedBy(policy, 'overflow')) {
    return {
      kind: 'exhausted',
      error: exhausted(meter, measurement, 'Nothing is compacted unasked (strategy: manual), and it is larger'),
    };
  }
  if (state.compactionsSinceStep >= MAX_COMPACTIONS_WITHOUT_STEP) {
    const error = exhausted(meter, measurement, `${state.compactionsSinceStep} compactions did not help: it is larger`);
    return { kind: 'exhausted', error };
  }
  return { kind: 'compact', reason: 'threshold', force: isOver };
}

const fixedTokens = ({ byKind }: Measurement): number => byKind.instructions + byKind.tools;

function isCompactionDue(meter: ContextMeter, measurement: Measurement, state: ContextState, worth: Worth): boolean {
  const { thresholds, policy } = meter;
  const used = measurement.total;
  if (!isStartedBy(policy, 'threshold')) return false;
  // A view fresh from a compaction is not compacted again before a step has used it.
  if (used < thresholds.compactAtTokens || state.compactionsSinceStep > 0) return false;
  if (isWaitingForGrowth(meter, used, state) || used < compactsAgainAt(meter, state)) return false;
  return used >= thresholds.compactByTokens || worth.compaction();
}

/** Whether a compaction failed and the view has not yet grown enough for another try. */
export function isWaitingForGrowth(
  { thresholds }: Pick<ContextMeter, 'thresholds'>,
  usedTokens: number,
  { failedAtTokens }: ContextState,
): boolean {
  return failedAtTokens !== null && usedTokens < failedAtTokens + thresholds.retryGrowthTokens;
}

/**
 * The error of a run that no longer fits the window: names the parts of the request and their sizes.
 * @param limit the limit that it exceeds: by our own numbers a request that the provider refused may well fit
 */
export function exhausted(
  meter: ContextMeter,
  { total, byKind }: Measurement,
  what: string,
  limit: 'what can be used' | 'what the provider takes' = 'what can be used',
): ErrorRecord {
  const parts = Object.entries(byKind).flatMap(([kind, tokens]) => (tokens > 0 ? [`${kind} ${tokens}`] : []));
  const { usableTokens } = meter.thresholds;
  return {
    code: 'context_exhausted',
    message: `${what} than ${limit}: ${total} of ${usableTokens} tokens (window ${meter.limits.contextWindow}; ${parts.join(', ')}).`,
  };
}
