import { type MediaSupport, type ShownMedia, showMedia } from '../../model/shown-media.ts';
import type { Json, ViewMessage } from '../../transcript/message.ts';
import { applyLearned, type LearnedLimits, type ModelLimits, reserveOf, usableOf } from '../limits/limits.ts';
import { limitsOf, type ModelEntry, tierOf } from '../limits/model-entry.ts';
import { type ContextPolicy, isStartedBy, type StrategyName } from '../limits/policy.ts';
import { type ThresholdShares, type Thresholds, thresholdsOf } from '../limits/thresholds.ts';
import { type Calibration, isCalibrated, ratioOf, startCalibration } from './calibration.ts';
import { type Anchor, estimateOverhead, type Measurement, measure, type OverheadTokens } from './measure.ts';
import type { ContextState } from './state.ts';
import type { TokenCounter } from './tokens.ts';

const STRATEGY_SHARES: Readonly<Partial<Record<StrategyName, ThresholdShares>>> = {
  'proactive-threshold': { compactAt: 0.5, tail: 0.3 },
};

export type ContextMeterInput = Readonly<{
  /** `provider/model` of the next request. */
  model: string;
  entry: ModelEntry;
  learned: LearnedLimits | null;
  /** Token ratio that earlier sessions learned for the model. */
  prior: number | null;
  policy: ContextPolicy;
  instructions: string;
  tools: readonly Readonly<{ name: string; description: string; inputSchema: Json }>[];
  count: TokenCounter;
  /** Media that the model takes; absent: all in the view. */
  media?: MediaSupport;
}>;

/** Measures views of one session for one model, and holds the thresholds of the context layer. */
export type ContextMeter = Readonly<{
  model: string;
  entry: ModelEntry;
  policy: ContextPolicy;
  limits: ModelLimits;
  /** The window is a guess: no source has told it, and no call has taught it. */
  isGuess: boolean;
  learned: LearnedLimits | null;
  instructions: string;
  thresholds: Thresholds;
  /** Estimated tokens, before the ratio. */
  overheadTokens: OverheadTokens;
  count: TokenCounter;
  /** The session's calibration for this model, or a new one. */
  calibrationOf: (state: ContextState) => Calibration;
  /** Real tokens per estimated token. */
  ratioOf: (state: ContextState) => number;
  /** The last billed call, if the next request continues it with the same model, instructions and tools. */
  anchorOf: (state: ContextState) => Anchor | null;
  /** Whether the last call had other instructions or tools. */
  hasOtherOverhead: (state: ContextState) => boolean;
  /** The view with the media that this model takes; see `showMedia`. */
  show: (view: readonly ViewMessage[]) => ShownMedia;
  /** Tokens of the next request with this view, as `show` returns it. */
  measure: (view: readonly ViewMessage[], state: ContextState) => Measurement;
  /** Tokens kept free beside the answer, for errors of the measure. */
  marginOf: (measurement: Measurement, state: ContextState) => number;
}>;

/** In recorded sessions anchored measures were within 1 % of the bill. Unanchored ones are allowed 5 %. */
const ANCHORED_MARGIN_SHARE = 0.01;
const ESTIMATED_MARGIN_SHARE = 0.05;
/** Share of the reserve: `usable` always leaves room for an answer, and no token is kept free twice. */
const MAX_MARGIN_SHARE = 0.5;

/** Pure; all sizes are in tokens. */
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

/** From where on Baton prunes and compacts unasked, in percent of what is usable. Null: not by the size of the view. */
export type ThresholdPercents = Readonly<{
  pruneAtPercent: number | null;
  /** Where it pays. */
  compactAtPercent: number | null;
  /** Whatever it costs; earlier in a window of which less than this is usable. */
  compactByPercent: number | null;
}>;

/** The thresholds of a policy without those of a model's window. */
export function thresholdPercentsOf(policy: ContextPolicy): ThresholdPercents {
  const { pruneAtTokens, compactAtTokens, compactByTokens } = thresholdsOf(
    PARTS,
    Number.POSITIVE_INFINITY,
    sharesOf(policy),
  );
  const percentOf = (parts: number): number => (parts / PARTS) * 100;
  const compacts = isStartedBy(policy, 'threshold');
  return {
    pruneAtPercent: policy.prune.enabled ? percentOf(pruneAtTokens) : null,
    compactAtPercent: compacts ? percentOf(compactAtTokens) : null,
    compactByPercent: compacts ? percentOf(compactByTokens) : null,
  };
}

/** Of a whole: a tenth of a percent each. */
const PARTS = 1_000;

export function sharesOf({ compaction, prune }: ContextPolicy): ThresholdShares {
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
    // A protection larger than the window would protect everything.
    ...(protectTokens !== undefined && {
      pruneProtectTokens: Math.min(protectTokens, Math.floor(thresholds.usableTokens / 4)),
    }),
    ...(minimumTokens !== undefined && {
      pruneMinimumTokens: Math.min(minimumTokens, Math.floor(thresholds.usableTokens / 4)),
    }),
  };
}
