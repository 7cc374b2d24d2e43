import { z } from 'zod';
import type { ModelFamily, TokenTier } from '../../model/model-family.ts';

/** The ratio is kept in this range, whatever was learned. */
export const MIN_RATIO = 0.5;
export const MAX_RATIO = 4;

/** A session is calibrated from this many estimated tokens on: by then framing and small samples have evened out. */
export const CALIBRATED_FROM_TOKENS = 2_000;

/**
 * The one safety margin of the meter. Only without a tokenizer of the family, and only until the session is calibrated.
 */
export const COLD_START_MARGIN = 1.1;

/**
 * Real tokens per estimated token before anything was learned. Claude measured on recorded sessions with real usage;
 * for the others the distance between their published tokenizers and o200k, framing included.
 */
const COLD_START_PRIORS: Readonly<Record<TokenTier, Readonly<Partial<Record<ModelFamily, number>>>>> = {
  exact: { openai: 1.1 },
  estimate: { claude: 1.22, openai: 1.1, gemini: 1.15 },
};
const UNKNOWN_PRIOR = 1.25;

/** What a session has learned about one model. Plain data: it is stored with the session. */
export const calibrationSchema = z.strictObject({
  /** The ratio until enough was learned, without any margin. */
  prior: z.number().min(MIN_RATIO).max(MAX_RATIO),
  /** Multiplies the prior, and nothing else. */
  margin: z.number().min(1),
  realTokens: z.number().nonnegative(),
  estimatedTokens: z.number().nonnegative(),
});
export type Calibration = Readonly<z.infer<typeof calibrationSchema>>;

/**
 * The state of a session that has learned nothing yet.
 * @param prior what earlier sessions learned about the model, from `priorFrom`; null takes the family's own
 */
export function startCalibration(family: ModelFamily, tier: TokenTier, prior: number | null): Calibration {
  const ofFamily = COLD_START_PRIORS[tier][family];
  const ratio = prior ?? ofFamily ?? UNKNOWN_PRIOR;
  const margin = tier === 'exact' && ofFamily !== undefined ? 1 : COLD_START_MARGIN;
  return { prior: clampRatio(ratio), margin, realTokens: 0, estimatedTokens: 0 };
}

/** True once the ratio rests on what the session itself was billed. */
export const isCalibrated = (state: Calibration): boolean => state.estimatedTokens >= CALIBRATED_FROM_TOKENS;

/** Real tokens per estimated token. Carries the margin until the session is calibrated, and none from then on. */
export function ratioOf(state: Calibration): number {
  if (!isCalibrated(state)) return clampRatio(state.prior * state.margin);
  return clampRatio(state.realTokens / state.estimatedTokens);
}

/** How much of a persisted prior the next calibrated session replaces. */
const PRIOR_LEARNING_RATE = 0.3;

/**
 * The prior to persist for the model after a session: without the margin, so that margins never pile up over sessions.
 * @param persisted the model's prior so far; null when there is none
 * @returns null when neither anything is persisted nor the session is calibrated
 */
export function priorFrom(state: Calibration, persisted: number | null): number | null {
  if (!isCalibrated(state)) return persisted;
  const learned = ratioOf(state);
  return persisted === null ? learned : persisted + PRIOR_LEARNING_RATE * (learned - persisted);
}

/** One model call compared with what was expected of it. */
export type CalibrationSample = Readonly<{
  outcome: 'completed' | 'aborted' | 'failed';
  /** What the provider billed as the prompt of this call, and of the one before. */
  inputTokens: number;
  previousInputTokens: number;
  /** `coveredTokens` and `estimateAfter` of this call's prompt, with the call before as the anchor. */
  coveredTokens: number;
  estimatedTokens: number;
  /** The limit of the model's input as far as it is known. */
  limitTokens: number | null;
  /** What is not the same as in the call before. */
  changed: Readonly<{ model: boolean; tools: boolean; view: boolean; media: boolean }>;
}>;

/** Why a sample was not learned from. */
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

/**
 * A sample of at least this size that lies outside this range is no tokenizer's doing: something else was cut or added.
 */
const PLAUSIBLE_FROM_TOKENS = 200;
const MIN_PLAUSIBLE_RATIO = 0.25;
const MAX_PLAUSIBLE_RATIO = 8;

/**
 * Learns from one call: the cumulative ratio of real to estimated tokens. A sample that says nothing about
 * the tokenizer is refused and leaves the state as it was; one poisoned sample would bend every later
 * measurement of the session.
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

/** Smaller powers of two are no context size that anybody runs. */
const SMALLEST_CAP_TOKENS = 1_024;
/** Ollama cuts a prompt to half its context size plus 2. */
const CAP_TOLERANCE_TOKENS = 2;

/** A prompt that was cut without a word: its size did not move, or it is the limit or a round context size. */
function isSuspiciousCap({ inputTokens, previousInputTokens, limitTokens }: CalibrationSample): boolean {
  if (inputTokens === previousInputTokens) return true;
  if (limitTokens !== null && inputTokens >= limitTokens - CAP_TOLERANCE_TOKENS) return true;
  const power = 2 ** Math.round(Math.log2(Math.max(1, inputTokens)));
  return power >= SMALLEST_CAP_TOKENS && Math.abs(inputTokens - power) <= CAP_TOLERANCE_TOKENS;
}

const clampRatio = (ratio: number): number => Math.min(MAX_RATIO, Math.max(MIN_RATIO, ratio));
