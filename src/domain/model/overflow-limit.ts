import {
  OVERFLOW_RULES,
  type OverflowClass,
  type OverflowRule,
  RATE_BELOW_REQUEST,
} from './provider-overflow-rules.ts';

/** In tokens as the provider counts them. */
export type OverflowNumbers = Readonly<{
  /** The real limit; null: the text names none. */
  limitTokens: number | null;
  /** `window` counts input and output together, `input` only the input. */
  scope: 'window' | 'input';
  /** Size of the request, with the output if the text says so. */
  requestedTokens: number | null;
  /** The parts of it, if the text tells them apart. */
  inputTokens: number | null;
  outputTokens: number | null;
  /** Largest output that the same request may ask for; null: unknown. */
  outputRoomTokens: number | null;
  /** False: the rate limit of an account, which holds for this request and is no property of the model. */
  isLasting: boolean;
}>;

export type OverflowReading = Readonly<{ class: OverflowClass; numbers: OverflowNumbers | null }>;

/** An error may quote the prompt, and a prompt may quote any error: only the beginning counts. */
const MAX_SEARCHED_CHARS = 2_000;
/** A number outside this range is not a window. */
const MIN_LIMIT_TOKENS = 512;
const MAX_LIMIT_TOKENS = 100_000_000;
/** With less room than this for the answer, the input is too large. */
const MIN_OUTPUT_ROOM_TOKENS = 1_024;

const NO_NUMBERS: OverflowNumbers = {
  limitTokens: null,
  scope: 'window',
  requestedTokens: null,
  inputTokens: null,
  outputTokens: null,
  outputRoomTokens: null,
  isLasting: true,
};

/**
 * Reads an overflow error. If the input leaves room for an answer, a smaller output is enough.
 * @param admits selects the rules that apply, for instance by the response's status
 * @returns null: the text is not about an overflow
 */
export function readOverflowText(text: string, admits: (rule: OverflowRule) => boolean): OverflowReading | null {
  const searched = text.slice(0, MAX_SEARCHED_CHARS);
  let unnumbered: OverflowReading | null = null;
  for (const rule of OVERFLOW_RULES) {
    const match = admits(rule) ? rule.text.exec(searched) : null;
    if (match === null) continue;
    const numbers = numbersOf(rule, match.groups ?? {});
    if (numbers !== null) return { class: classOf(rule, numbers), numbers };
    // Another rule may find the numbers.
    unnumbered ??= { class: rule.class, numbers: null };
    if (rule.class !== 'input_overflow') break;
  }
  return unnumbered;
}

/** Numbers of a rate limit that the request alone exceeds, so that no waiting helps. Null: a rate limit that passes. */
export function rateBelowRequest(text: string): OverflowNumbers | null {
  const groups = RATE_BELOW_REQUEST.exec(text.slice(0, MAX_SEARCHED_CHARS))?.groups;
  const limitTokens = numberOf(groups?.['limit']);
  const requestedTokens = numberOf(groups?.['requested']);
  if (limitTokens === null || requestedTokens === null || requestedTokens <= limitTokens) return null;
  return { ...NO_NUMBERS, limitTokens, requestedTokens, isLasting: false };
}

function numbersOf(rule: OverflowRule, groups: Readonly<Record<string, string>>): OverflowNumbers | null {
  const limit = numberOf(groups['limit']);
  if (limit === null) return null;
  const outputTokens = numberOf(groups['output']);
  if (rule.scope === 'output') return { ...NO_NUMBERS, outputTokens, outputRoomTokens: limit };
  if (limit < MIN_LIMIT_TOKENS || limit > MAX_LIMIT_TOKENS) return null;
  const total = numberOf(groups['requested']);
  // "12 in the messages, 3 in the functions, 4 in the completion": all but the output is input.
  const inputTokens =
    total !== null && outputTokens !== null ? Math.max(0, total - outputTokens) : numberOf(groups['input']);
  const sum = inputTokens === null || outputTokens === null ? null : inputTokens + outputTokens;
  const isExact = groups['atLeast'] === undefined;
  const room = inputTokens === null || outputTokens === null || !isExact ? null : limit - inputTokens;
  return {
    limitTokens: limit,
    scope: rule.scope,
    requestedTokens: total ?? sum,
    inputTokens,
    outputTokens,
    outputRoomTokens: room !== null && room > 0 ? room : null,
    isLasting: true,
  };
}

function classOf(rule: OverflowRule, { limitTokens, inputTokens, outputTokens }: OverflowNumbers): OverflowClass {
  if (rule.class !== 'input_overflow') return rule.class;
  if (rule.scope !== 'window' || limitTokens === null || inputTokens === null || outputTokens === null) {
    return rule.class;
  }
  return limitTokens - inputTokens >= MIN_OUTPUT_ROOM_TOKENS ? 'output_reserve_overflow' : rule.class;
}

function numberOf(digits: string | undefined): number | null {
  if (digits === undefined) return null;
  const value = Number(digits.replaceAll(',', ''));
  return Number.isSafeInteger(value) ? value : null;
}
