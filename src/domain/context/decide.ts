import type { ErrorRecord } from '../errors.ts';
import { maxOutputFor } from './limits/limits.ts';
import { isStartedBy } from './limits/policy.ts';
import type { ContextMeter } from './meter/context-meter.ts';
import type { Measurement } from './meter/measure.ts';
import type { CompactionReason, ContextState } from './meter/state.ts';

/** What must happen before the next request can be sent. */
export type ContextDecision = Readonly<
  | {
      kind: 'proceed';
      /** To be sent with the request: a provider's default is the model's maximum. */
      maxOutputTokens: number;
      /** The window leaves less room than the reserve: an answer that ends for its length was cut by it. */
      isWindowBound: boolean;
    }
  | { kind: 'prune' }
  | { kind: 'compact'; reason: CompactionReason; force: boolean }
  | { kind: 'exhausted'; error: ErrorRecord }
>;

/** What is worth its while, for the view that is decided about. Either answer may take the whole view. */
export type Worth = Readonly<{ prune: () => boolean; compaction: () => boolean }>;

/** Compactions in a row, without a model step that succeeded in between, on whatever route. */
export const MAX_COMPACTIONS_WITHOUT_STEP = 3;

/**
 * Decides what the context needs before the next request. The order is: what can never fit ends the run; a prune is
 * cheaper than a compaction and goes first; a compaction is due where it pays or the window is full, and again after a failure only
 * once the view has grown; above `usable` it is due whatever happened before, until the breaker opens.
 *
 * @param worth asked only where something may be due
 * @param mostOutputTokens what the agent or the provider allows for the answer
 * @param isLast nothing comes after this request: as long as it fits, nothing is taken out for later ones
 */
export function decideContext(
  meter: ContextMeter,
  measurement: Measurement,
  state: ContextState,
  worth: Worth,
  mostOutputTokens: number = Number.POSITIVE_INFINITY,
  isLast = false,
): ContextDecision {
  const { thresholds, policy } = meter;
  const used = measurement.total;
  // What the messages share of it is asked only where it matters: it takes the whole view.
  if (used > thresholds.usableTokens && fixedTokens(measurement) > thresholds.usableTokens) {
    return { kind: 'exhausted', error: exhausted(meter, measurement, 'The instructions and tools alone are larger') };
  }
  const outputTokens = Math.min(
    mostOutputTokens,
    maxOutputFor(meter.limits, used, meter.marginOf(measurement, state), policy),
  );
  // What is usable leaves half of the reserve at least for the answer, whatever the margin.
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

/** What no compaction can take out. */
const fixedTokens = ({ byKind }: Measurement): number => byKind.instructions + byKind.tools;

function isCompactionDue(meter: ContextMeter, measurement: Measurement, state: ContextState, worth: Worth): boolean {
  const { thresholds, policy } = meter;
  const used = measurement.total;
  if (!isStartedBy(policy, 'threshold')) return false;
  // What a compaction has left is not compacted again before a step has used it.
  if (used < thresholds.compactAtTokens || state.compactionsSinceStep > 0) return false;
  if (isWaitingForGrowth(meter, used, state)) return false;
  return used >= thresholds.compactByTokens || worth.compaction();
}

/** Whether a compaction failed, and the view has not grown enough since for another try. */
export function isWaitingForGrowth(
  { thresholds }: Pick<ContextMeter, 'thresholds'>,
  usedTokens: number,
  { failedAtTokens }: ContextState,
): boolean {
  return failedAtTokens !== null && usedTokens < failedAtTokens + thresholds.retryGrowthTokens;
}

/**
 * The end of a run that fits the window no more: says what is too large, and by how much.
 * @param limit what it is too large for; by our own numbers a request that the provider refused may well fit
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
