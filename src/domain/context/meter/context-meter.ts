import { type MediaSupport, type ShownMedia, showMedia } from '../../model/shown-media.ts';
import type { Json, ViewMessage } from '../../transcript/message.ts';
import { applyLearned, type LearnedLimits, type ModelLimits, reserveOf, usableOf } from '../limits/limits.ts';
import { limitsOf, type ModelEntry, tierOf } from '../limits/model-entry.ts';
import type { ContextPolicy, StrategyName } from '../limits/policy.ts';
import { type ThresholdShares, type Thresholds, thresholdsOf } from '../limits/thresholds.ts';
import { type Calibration, isCalibrated, ratioOf, startCalibration } from './calibration.ts';
import { type Anchor, estimateOverhead, type Measurement, measure, type OverheadTokens } from './measure.ts';
import type { ContextState } from './state.ts';
import type { TokenCounter } from './tokens.ts';

/** Where a strategy differs from the default thresholds. */
const STRATEGY_SHARES: Readonly<Partial<Record<StrategyName, ThresholdShares>>> = {
  'proactive-threshold': { compactAt: 0.5, tail: 0.3 },
};

/** What a meter is made for: one model, one agent, one set of tools. */
export type ContextMeterInput = Readonly<{
  /** `provider/model` of the next request. */
  model: string;
  entry: ModelEntry;
  /** What the endpoint taught about its limits. */
  learned: LearnedLimits | null;
  /** What earlier sessions learned about the model's tokens. */
  prior: number | null;
  policy: ContextPolicy;
  instructions: string;
  tools: readonly Readonly<{ name: string; description: string; inputSchema: Json }>[];
  count: TokenCounter;
  /** What the model can be shown beside text; absent: whatever the view has. */
  media?: MediaSupport;
}>;

/** Measures views of one session for one model, and knows where the context layer acts on them. */
export type ContextMeter = Readonly<{
  model: string;
  entry: ModelEntry;
  policy: ContextPolicy;
  limits: ModelLimits;
  /** Nobody has told how large the model's window is, and no call has shown it. */
  isGuess: boolean;
  /** What the endpoint taught about its limits. */
  learned: LearnedLimits | null;
  /** As every request carries them. */
  instructions: string;
  thresholds: Thresholds;
  /** Estimated tokens of what every request carries, before the ratio. */
  overheadTokens: OverheadTokens;
  count: TokenCounter;
  /** What the session has learned about this model, or what it starts from. */
  calibrationOf: (state: ContextState) => Calibration;
  /** Real tokens per estimated token. */
  ratioOf: (state: ContextState) => number;
  /** The last call as it was billed, where the next request continues it: same model, instructions and tools. */
  anchorOf: (state: ContextState) => Anchor | null;
  /** Whether the last call was sent with other instructions or tools. */
  hasOtherOverhead: (state: ContextState) => boolean;
  /** The view as this model can be shown it: see `showMedia`. */
  show: (view: readonly ViewMessage[]) => ShownMedia;
  /** The tokens of the next request with this view, as the model is shown it. */
  measure: (view: readonly ViewMessage[], state: ContextState) => Measurement;
  /** Tokens that the measure may be wrong by: kept free beside the answer. */
  marginOf: (measurement: Measurement, state: ContextState) => number;
}>;

/** Anchored measures were within 1 % of what was billed in the recorded sessions; unanchored ones are held to 5 %. */
const ANCHORED_MARGIN_SHARE = 0.01;
const ESTIMATED_MARGIN_SHARE = 0.05;
/** Of the reserve: what is usable always leaves room for an answer, and nothing is kept free twice. */
const MAX_MARGIN_SHARE = 0.5;

/** The meter of one model with one agent's instructions and tools. All that it measures is in tokens. Pure. */
export function createContextMeter(input: ContextMeterInput): ContextMeter {
  const { model, entry, policy, count } = input;
  const limits = applyLearned(limitsOf(entry), input.learned, entry.isGuessed);
  const thresholds = thresholdsOf(usableOf(limits, policy), limits.contextWindow, sharesOf(policy));
  const overheadTokens = estimateOverhead(input.instructions, input.tools, count);
  const calibrationOf = (state: ContextState): Calibration =>
    state.model === model && state.calibration !== null
      ? state.calibration
      : startCalibration(entry.family, tierOf(entry), input.prior);
  const ratio = (state: ContextState): number => ratioOf(calibrationOf(state));
  const allOverhead = overheadTokens.instructions + overheadTokens.tools;
  const hasOtherOverhead = ({ overheadTokens: billed }: ContextState): boolean =>
    billed !== null && billed !== allOverhead;
  const anchorOf = (state: ContextState): Anchor | null =>
    state.model === model && !hasOtherOverhead(state) ? state.anchor : null;
  const show = (view: readonly ViewMessage[]): ShownMedia =>
    input.media === undefined ? { view, unsupported: [] } : showMedia(view, input.media);
  return {
    model,
    entry,
    policy,
    limits,
    isGuess: entry.isGuessed && input.learned === null,
    learned: input.learned,
    instructions: input.instructions,
    thresholds: withPrunePolicy(thresholds, policy),
    overheadTokens,
    count,
    calibrationOf,
    ratioOf: ratio,
    anchorOf,
    hasOtherOverhead,
    show,
    measure: (view, state) => {
      return measure({
        view: show(view).view,
        model,
        overheadTokens,
        anchor: anchorOf(state),
        ratio: ratio(state),
        count,
      });
    },
    marginOf: ({ total, isAnchored }, state) => {
      const isSure = isAnchored && isCalibrated(calibrationOf(state));
      const margin = total * (isSure ? ANCHORED_MARGIN_SHARE : ESTIMATED_MARGIN_SHARE);
      return Math.min(Math.ceil(margin), Math.floor(reserveOf(limits, policy) * MAX_MARGIN_SHARE));
    },
  };
}

function sharesOf({ compaction, prune }: ContextPolicy): ThresholdShares {
  const { thresholdPercent: compactAt } = compaction.options;
  const { thresholdPercent: pruneAt } = prune;
  return {
    ...STRATEGY_SHARES[compaction.strategy],
    ...(compactAt !== undefined && { compactAt: compactAt / 100 }),
    ...(pruneAt !== undefined && { pruneAt: pruneAt / 100 }),
  };
}

function withPrunePolicy(thresholds: Thresholds, { prune }: ContextPolicy): Thresholds {
  const { protectTokens, minimumTokens } = prune;
  return {
    ...thresholds,
    // A protection that is larger than the window would protect everything.
    ...(protectTokens !== undefined && {
      pruneProtectTokens: Math.min(protectTokens, Math.floor(thresholds.usableTokens / 4)),
    }),
    ...(minimumTokens !== undefined && {
      pruneMinimumTokens: Math.min(minimumTokens, Math.floor(thresholds.usableTokens / 4)),
    }),
  };
}
