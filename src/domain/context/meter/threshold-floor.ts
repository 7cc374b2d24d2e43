import { type ModelLimits, usableOf } from '../limits/limits.ts';
import { type ContextPolicy, isStartedBy } from '../limits/policy.ts';
import { MIN_SUMMARY_TOKENS, type Thresholds, thresholdsOf } from '../limits/thresholds.ts';
import { type ContextMeter, sharesOf } from './context-meter.ts';
import type { ContextState } from './state.ts';
import { estimateText } from './tokens.ts';

/** Whether the view may grow by a tenth before the next compaction is due. A view that met its target has room enough. */
export function hasRoom(
  { compactAtTokens, compactToTokens, retryGrowthTokens }: Thresholds,
  viewTokens: number,
): boolean {
  return viewTokens <= compactToTokens || viewTokens + retryGrowthTokens <= compactAtTokens;
}

/** Growth after which a compaction that left little room begins again, as a share of the view that it left. */
const GROWTH_ABOVE_FLOOR = 0.5;

/**
 * Tokens of the view from which the next compaction may begin, where the last one left little room below the threshold.
 * 0: no bound but the threshold. Otherwise it would begin at every step, and save little.
 */
export function compactsAgainAt(
  { thresholds }: Pick<ContextMeter, 'thresholds'>,
  { floorTokens }: Pick<ContextState, 'floorTokens'>,
): number {
  if (floorTokens === null) return 0;
  return floorTokens + Math.max(thresholds.retryGrowthTokens, Math.floor(floorTokens * GROWTH_ABOVE_FLOOR));
}

/** Real tokens per estimated one, at the least: an agent is refused only if no tokenizer could save it. */
const LEAST_RATIO = 0.5;

/** An agent's threshold in tokens, and what a view of it has at the least. */
export type ThresholdTooLow = Readonly<{ thresholdTokens: number; leastTokens: number }>;

/**
 * Judges the threshold that an agent sets by its instructions and the shortest summary.
 * @param limits of its model. Null: not known, so that `maxContextTokens` alone can make a threshold too low
 * @returns null: the threshold may be reached by a compaction
 */
export function thresholdTooLow(
  policy: ContextPolicy,
  instructions: string,
  limits: ModelLimits | null,
): ThresholdTooLow | null {
  if (policy.compaction.options.thresholdPercent === undefined || !isStartedBy(policy, 'threshold')) return null;
  const { contextWindow, ...rest } = limits ?? { contextWindow: Number.POSITIVE_INFINITY, maxOutput: 0 };
  const usable = usableOf({ contextWindow, ...rest }, policy);
  if (!Number.isFinite(usable)) return null;
  const { compactAtTokens: thresholdTokens } = thresholdsOf(usable, contextWindow, sharesOf(policy));
  const leastTokens = Math.floor(estimateText(instructions) * LEAST_RATIO) + MIN_SUMMARY_TOKENS;
  return leastTokens >= thresholdTokens ? { thresholdTokens, leastTokens } : null;
}
