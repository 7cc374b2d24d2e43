import { z } from 'zod';

const tokens = z.number().int().positive();

export const modelLimitsSchema = z.strictObject({
  /** Input and output together. */
  contextWindow: tokens,
  /** Limit of the input alone, if it is below the window. */
  inputLimit: tokens.optional(),
  maxOutput: tokens,
});
export type ModelLimits = Readonly<z.infer<typeof modelLimitsSchema>>;

export const GUESSED_LIMITS: ModelLimits = { contextWindow: 128_000, maxOutput: 16_000 };

/** No answer needs more, and reserved tokens are lost to the context. */
const MAX_RESERVE_TOKENS = 32_000;
/** Without this a small window would be all reserve: 32k of reserve in 8k of window leave nothing to work with. */
const MAX_RESERVE_SHARE = 0.25;

export const budgetOptionsSchema = z.strictObject({
  /** Limits the use of a large window, because quality falls and costs rise with length. */
  maxContextTokens: tokens.optional(),
  /** Tokens kept free for the answer, instead of the default. */
  outputReserve: tokens.optional(),
});
export type BudgetOptions = Readonly<z.infer<typeof budgetOptionsSchema>>;

/** Tokens kept free for the answer: the model's maximum output, at most 32k, and at most a quarter of the window. */
export function reserveOf(limits: ModelLimits, options: BudgetOptions = {}): number {
  const wanted = Math.min(limits.maxOutput, options.outputReserve ?? MAX_RESERVE_TOKENS);
  return Math.min(wanted, Math.floor(limits.contextWindow * MAX_RESERVE_SHARE));
}

/** Tokens that a request may hold: input limit, `maxContextTokens` or window without reserve, the least of them. */
export function usableOf(limits: ModelLimits, options: BudgetOptions = {}): number {
  return Math.min(
    limits.inputLimit ?? Number.POSITIVE_INFINITY,
    options.maxContextTokens ?? Number.POSITIVE_INFINITY,
    limits.contextWindow - reserveOf(limits, options),
  );
}

/**
 * `maxOutputTokens` of the next request. Always sent: the default is the model's maximum, which may exceed the window.
 * @param margin tokens kept free for errors of the measure
 * @returns 0: no room for an answer, so that the request must not be sent
 */
export function maxOutputFor(
  limits: ModelLimits,
  measured: number,
  margin: number,
  options: BudgetOptions = {},
): number {
  const free = Math.floor(limits.contextWindow - measured - margin);
  return Math.max(0, Math.min(reserveOf(limits, options), free));
}

/** Limits of a model behind one endpoint, learned from its errors and answers. */
export const learnedLimitsSchema = modelLimitsSchema.pick({ contextWindow: true, inputLimit: true }).partial();
export type LearnedLimits = Readonly<z.infer<typeof learnedLimitsSchema>>;

/**
 * Merges learned limits into described ones. They only lower them: an endpoint may serve a smaller window, but an error
 * text is no reason to trust a larger one.
 * @param isGuess the model is unknown: learned limits replace the guessed ones, larger or smaller
 */
export function applyLearned(limits: ModelLimits, learned: LearnedLimits | null, isGuess = false): ModelLimits {
  if (learned === null) return limits;
  const contextWindow =
    lower(isGuess ? undefined : limits.contextWindow, learned.contextWindow) ?? limits.contextWindow;
  const inputLimit = lower(limits.inputLimit, learned.inputLimit);
  // If only an input limit was learned, the window is at least that large.
  const window =
    isGuess && learned.contextWindow === undefined ? Math.max(contextWindow, inputLimit ?? 0) : contextWindow;
  return {
    contextWindow: window,
    ...(inputLimit !== undefined && inputLimit < window && { inputLimit }),
    maxOutput: Math.min(limits.maxOutput, window),
  };
}

function lower(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}
