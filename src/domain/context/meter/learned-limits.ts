import type { OverflowNumbers } from '../../model/overflow-limit.ts';
import type { Usage } from '../../usage.ts';
import type { LearnedLimits } from '../limits/limits.ts';
import type { ContextMeter } from './context-meter.ts';
import type { Measurement } from './measure.ts';

/**
 * What an endpoint has taught about the limits of a model. `told`: by its own words, or by what it let through of a
 * request. `shown`: by a call that was larger than what was known and went well; the limit is no less.
 */
export type Lesson = Readonly<{ by: 'told' | 'shown'; limits: LearnedLimits }>;

/** The rest of a request that was too large by nobody knows how much: a window that this fits may be the real one. */
const REFUSED_SHARE = 0.7;
const MIN_WINDOW_TOKENS = 1_024;

/** What the numbers in an overflow teach; null where they tell no limit that lasts. */
export function lessonOfNumbers(
  numbers: Pick<OverflowNumbers, 'limitTokens' | 'scope' | 'isLasting'> | null,
): Lesson | null {
  if (numbers === null || numbers.limitTokens === null || !numbers.isLasting) return null;
  const { limitTokens, scope } = numbers;
  return { by: 'told', limits: scope === 'input' ? { inputLimit: limitTokens } : { contextWindow: limitTokens } };
}

/**
 * What a refusal without numbers teaches: that a guessed window is too large. It is lowered below the request, and not
 * below what went through before; a window that somebody told is left as it is.
 */
export function lessonOfRefusal(
  { entry }: Pick<ContextMeter, 'entry'>,
  { total }: Pick<Measurement, 'total'>,
  accepted: Usage | null,
): Lesson | null {
  if (!entry.isGuessed) return null;
  const wentThrough = accepted === null ? 0 : accepted.inputTokens + accepted.outputTokens;
  const contextWindow = Math.max(Math.floor(REFUSED_SHARE * total), Math.min(wentThrough, total), MIN_WINDOW_TOKENS);
  return { by: 'told', limits: { contextWindow } };
}

/**
 * What a call teaches that was larger than the limits that were guessed or learned, and went well: they are no less
 * than that. Limits that somebody told are not raised beyond.
 */
export function lessonOfSuccess(
  { entry, learned, limits }: Pick<ContextMeter, 'entry' | 'learned' | 'limits'>,
  { inputTokens, outputTokens }: Usage,
): Lesson | null {
  const mayRaiseWindow = entry.isGuessed || learned?.contextWindow !== undefined;
  const isAboveWindow = mayRaiseWindow && inputTokens + outputTokens > limits.contextWindow;
  const isAboveInput = learned?.inputLimit !== undefined && inputTokens > learned.inputLimit;
  if (!isAboveWindow && !isAboveInput) return null;
  return {
    by: 'shown',
    limits: {
      ...(isAboveWindow && { contextWindow: inputTokens + outputTokens }),
      ...(isAboveInput && { inputLimit: inputTokens }),
    },
  };
}
