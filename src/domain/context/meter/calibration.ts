import { z } from 'zod';
import type { ModelFamily, TokenTier } from '../../model/model-family.ts';

/** Every learned ratio is clamped to this range. */
export const MIN_RATIO = 0.5;
export const MAX_RATIO = 4;

/** From this many estimated tokens on a session is calibrated: framing and small samples have evened out. */
export const CALIBRATED_FROM_TOKENS = 2_000;

/** The meter's only margin, until the session is calibrated. Not used for a family with an exact tokenizer. */
export const COLD_START_MARGIN = 1.1;

/**
 * Real tokens per estimated token before a session has learned. For Claude measured on the bills of recorded sessions;
 * for others the distance of their published tokenizers from o200k, framing included.
 */
const COLD_START_PRIORS: Readonly<Record<TokenTier, Readonly<Partial<Record<ModelFamily, number>>>>> = {
  exact: { openai: 1.1 },
  estimate: { claude: 1.22, openai: 1.1, gemini: 1.15 },
};
const UNKNOWN_PRIOR = 1.25;

/** A session's knowledge about the tokens of one model. Stored with the session. */
export const calibrationSchema = z.strictObject({
  /** The ratio until the session is calibrated, without the margin. */
  prior: z.number().min(MIN_RATIO).max(MAX_RATIO),
  /** Multiplies only the prior. */
  margin: z.number().min(1),
  realTokens: z.number().nonnegative(),
  estimatedTokens: z.number().nonnegative(),
});
export type Calibration = Readonly<z.infer<typeof calibrationSchema>>;

/** @param prior learned by earlier sessions, from `priorFrom`; null: the family's own */
export function startCalibration(family: ModelFamily, tier: TokenTier, prior: number | null): Calibration {
  const ofFamily = COLD_START_PRIORS[tier][family];
  const ratio = prior ?? ofFamily ?? UNKNOWN_PRIOR;
  const margin = tier === 'exact' && ofFamily !== undefined ? 1 : COLD_START_MARGIN;
  return { prior: clampRatio(ratio), margin, realTokens: 0, estimatedTokens: 0 };
}

/** True: the ratio rests on the session's own bills. */
export const isCalibrated = (state: Calibration): boolean => state.estimatedTokens >= CALIBRATED_FROM_TOKENS;

/** Real tokens per estimated token; with the margin until the session is calibrated. */
export function ratioOf(state: Calibration): number {
  if (!isCalibrated(state)) return clampRatio(state.prior * state.margin);
  return clampRatio(state.realTokens / state.estimatedTokens);
}

/** Share of a persisted prior that the next calibrated session replaces. */
const PRIOR_LEARNING_RATE = 0.3;

/**
 * The model's prior to persist after a session. Without the margin, so that margins do not add up over sessions.
 * @returns null: nothing is persisted, and the session is not calibrated
 */
export function priorFrom(state: Calibration, persisted: number | null): number | null {
  if (!isCalibrated(state)) return persisted;
  const learned = ratioOf(state);
  return persisted === null ? learned : persisted + PRIOR_LEARNING_RATE * (learned - persisted);
}

export type CalibrationSample = Readonly<{
  outcome: 'completed' | 'aborted' | 'failed';
  /** Billed input of this call and of the previous one. */
  inputTokens: number;
  previousInputTokens: number;
  /** `coveredTokens` and `estimateAfter` of this call's view, with the previous call as the anchor. */
  coveredTokens: number;
  estimatedTokens: number;
  /** Limit of the model's input; null: unknown. */
  limitTokens: number | null;
  changed: Readonly<{ model: boolean; tools: boolean; view: boolean; media: boolean }>;
}>;

export const SAMPLE_REFUSALS = [
  'aborted',
  'failed',
  'model_changed',
  'tools_changed',
  'view_rewritten',
  'media_changed',
  'nothing_new',
  'input_shrank',
  'suspicious_cap',
  'input_below_anchor',
  'implausible_ratio',
] as const;
export type SampleRefusal = (typeof SAMPLE_REFUSALS)[number];

/** From this size on, a sample outside this range is not the tokenizer's doing: content was cut or added. */
const PLAUSIBLE_FROM_TOKENS = 200;
const MIN_PLAUSIBLE_RATIO = 0.25;
const MAX_PLAUSIBLE_RATIO = 8;

/**
 * Learns the cumulative ratio of real to estimated tokens from one call. Refuses a sample that says nothing about the
 * tokenizer, because one bad sample would bend all later measurements of the session.
 */
export function learn(
  state: Calibration,
  sample: CalibrationSample,
): Readonly<{ state: Calibration; refused: SampleRefusal | null }> {
  const refused = refusalOf(sample);
  if (refused !== null) return { state, refused };
  const realTokens = state.realTokens + sample.inputTokens - sample.coveredTokens;
  const estimatedTokens = state.estimatedTokens + sample.estimatedTokens;
  return { state: { ...state, realTokens, estimatedTokens }, refused: null };
}

function refusalOf(sample: CalibrationSample): SampleRefusal | null {
  if (sample.outcome !== 'completed') return sample.outcome;
  if (sample.changed.model) return 'model_changed';
  if (sample.changed.tools) return 'tools_changed';
  if (sample.changed.view) return 'view_rewritten';
  if (sample.changed.media) return 'media_changed';
  if (sample.estimatedTokens <= 0) return 'nothing_new';
  if (sample.inputTokens < sample.previousInputTokens) return 'input_shrank';
  if (isSuspiciousCap(sample)) return 'suspicious_cap';
  const realTokens = sample.inputTokens - sample.coveredTokens;
  if (realTokens < 0) return 'input_below_anchor';
  const ratio = realTokens / sample.estimatedTokens;
  const isPlausible = ratio >= MIN_PLAUSIBLE_RATIO && ratio <= MAX_PLAUSIBLE_RATIO;
  return isPlausible || sample.estimatedTokens < PLAUSIBLE_FROM_TOKENS ? null : 'implausible_ratio';
}

/** No server runs with a smaller context size. */
const SMALLEST_CAP_TOKENS = 1_024;
/** Ollama cuts a prompt to half its context size plus 2. */
const CAP_TOLERANCE_TOKENS = 2;

/** Whether a prompt was cut silently: its size did not change, or it is the limit or a round context size. */
function isSuspiciousCap({ inputTokens, previousInputTokens, limitTokens }: CalibrationSample): boolean {
  if (inputTokens === previousInputTokens) return true;
  if (limitTokens !== null && inputTokens >= limitTokens - CAP_TOLERANCE_TOKENS) return true;
  const power = 2 ** Math.round(Math.log2(Math.max(1, inputTokens)));
  return power >= SMALLEST_CAP_TOKENS && Math.abs(inputTokens - power) <= CAP_TOLERANCE_TOKENS;
}

const clampRatio = (ratio: number): number => Math.min(MAX_RATIO, Math.max(MIN_RATIO, ratio));
