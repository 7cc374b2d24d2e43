import type { OverflowNumbers } from '../../model/overflow-limit.ts';
import type { Usage } from '../../usage.ts';
import type { LearnedLimits } from '../limits/limits.ts';
import type { ContextMeter } from './context-meter.ts';
import type { Measurement } from './measure.ts';

/**
 * Limits of a model that its endpoint has taught. `told`: by an error, or by the part of a request that it let through;
 * `shown`: by a successful call above the known limit, which is at least that large.
 */
export type Lesson = Readonly<{ by: 'told' | 'shown'; limits: LearnedLimits }>;

/** Window assumed after a refusal without numbers, as a share of the refused request. */
const REFUSED_SHARE = 0.7;
const MIN_WINDOW_TOKENS = 1_024;

/** Lesson of the numbers in an overflow; null: they name no lasting limit. */
export function lessonOfNumbers(
  numbers: Pick<OverflowNumbers, 'limitTokens' | 'scope' | 'isLasting'> | null,
): Lesson | null {
  if (numbers === null || numbers.limitTokens === null || !numbers.isLasting) return null;
  const { limitTokens, scope } = numbers;
  return { by: 'told', limits: scope === 'input' ? { inputLimit: limitTokens } : { contextWindow: limitTokens } };
}

/** Lowers a guessed window below the refused request, but not below an accepted size. A described one stays. */
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

/** A successful call above a guessed or learned limit raises it to the call's size. A described one stays. */
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
