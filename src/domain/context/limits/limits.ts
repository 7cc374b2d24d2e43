import { z } from 'zod';

const tokens = z.number().int().positive();

/** What a model takes and gives, in tokens. */
export const modelLimitsSchema = z.strictObject({
  /** Input and output together. */
  contextWindow: tokens,
  /** Where the input has a limit of its own, below the window. */
  inputLimit: tokens.optional(),
  maxOutput: tokens,
});
export type ModelLimits = Readonly<z.infer<typeof modelLimitsSchema>>;

/** What is taken for the limits of a model of which they are not known, until its endpoint teaches others. */
export const GUESSED_LIMITS: ModelLimits = { contextWindow: 128_000, maxOutput: 16_000 };

/** No answer needs more; what is reserved is lost for the context. */
const MAX_RESERVE_TOKENS = 32_000;
/** Beyond this a small window would be all reserve: with 8k and 32k there would be nothing left to work with. */
const MAX_RESERVE_SHARE = 0.25;

export const budgetOptionsSchema = z.strictObject({
  /** Use no more of a large window than this: quality falls and costs rise with length. */
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

/** Tokens that a request may hold: the model's input limit, or the window without the reserve, whichever is less. */
export function usableOf(limits: ModelLimits, options: BudgetOptions = {}): number {
  return Math.min(
    limits.inputLimit ?? Number.POSITIVE_INFINITY,
    options.maxContextTokens ?? Number.POSITIVE_INFINITY,
    limits.contextWindow - reserveOf(limits, options),
  );
}

/**
 * `maxOutputTokens` of the next request. Always sent: a provider's default is the model's maximum, which together with
 * the input may exceed the window.
 * @param measured tokens of the request
 * @param margin tokens kept free for what the measure misses
 * @returns 0 when there is no room for any answer: such a request must not be sent
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

/** What an overflow error taught about a model behind one endpoint. */
export const learnedLimitsSchema = modelLimitsSchema.pick({ contextWindow: true, inputLimit: true }).partial();
export type LearnedLimits = Readonly<z.infer<typeof learnedLimitsSchema>>;

/**
 * The limits with what was learned from the provider. A learned limit only ever lowers a described one: the same model
 * may be served with a smaller window, and error texts are no reason to trust a larger one.
 * @param isGuess the limits are those of an unknown model: the learned ones replace them, larger or smaller
 */
export function applyLearned(limits: ModelLimits, learned: LearnedLimits | null, isGuess = false): ModelLimits {
  if (learned === null) return limits;
  const contextWindow =
    lower(isGuess ? undefined : limits.contextWindow, learned.contextWindow) ?? limits.contextWindow;
  const inputLimit = lower(limits.inputLimit, learned.inputLimit);
  // A window that only the input limit is known of is at least that large.
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
