import type { OutputItem, ToolOutput } from '../../transcript/message.ts';
import { fileNotice } from '../../transcript/output-text.ts';
import { keepHeadAndTail } from '../../truncate.ts';
import type { Thresholds } from '../limits/thresholds.ts';
import { estimateFile } from '../meter/file-tokens.ts';
import type { TokenCounter } from '../meter/tokens.ts';

/** The tool calls of one message, while their results arrive. */
export type ToolBatch = Readonly<{
  openCalls: number;
  /** Tokens of the results so far, as the view shows them. */
  usedTokens: number;
}>;

/** Limits of a tool's output in the view. Both hold. */
export type OutputCap = Readonly<{ tokens: number; chars: number }>;

/** Least tokens of each result, however many calls there are: the notice of the cut, and a few lines. */
export const MIN_OUTPUT_TOKENS = 128;

/**
 * Cap of the next result: the limit of one output, or an equal share of the batch's remaining budget if that is less.
 * Unused budget goes to later results, so that a share never shrinks; only the minimum per call can exceed the budget.
 */
export function outputCapOf(
  thresholds: Pick<Thresholds, 'toolOutputTokens' | 'toolBatchTokens'>,
  batch: ToolBatch,
  toolLimitChars: number,
): OutputCap {
  const left = Math.max(0, thresholds.toolBatchTokens - batch.usedTokens);
  const share = Math.floor(left / Math.max(1, batch.openCalls));
  const tokens = Math.max(MIN_OUTPUT_TOKENS, Math.min(thresholds.toolOutputTokens, share));
  return { tokens, chars: toolLimitChars };
}

export function afterResult({ openCalls, usedTokens }: ToolBatch, tokens: number): ToolBatch {
  return { openCalls: Math.max(0, openCalls - 1), usedTokens: usedTokens + tokens };
}

/** `tokens`: of the files that stay. */
export type FittedFiles = Readonly<{ output: ToolOutput; tokens: number }>;

/** Keeps the first files within the cap, and names the others: a hundred screenshots would fill any window. */
export function fitFiles(output: ToolOutput, cap: OutputCap, count: TokenCounter): FittedFiles {
  if (output.type !== 'content') return { output, tokens: 0 };
  let tokens = 0;
  const value = output.value.map((item): OutputItem => {
    if (item.type === 'text') return item;
    const own = estimateFile(item, count);
    if (tokens + own > cap.tokens) return { type: 'text', text: `${fileNotice(item)} not shown: too much at once` };
    tokens += own;
    return item;
  });
  return { output: { type: 'content', value }, tokens };
}

export type CappedText = Readonly<{ text: string; tokens: number; truncated: boolean }>;

/** Close enough to the cap: each further step counts the text once more. */
const SEARCH_PRECISION = 1 / 64;

/**
 * Head and tail of a text within the cap, with a notice of the cut between them. Measured by its own tokens, because
 * digits and CJK cost more than prose; only the notice alone can exceed the cap.
 * @param count called about ten times, with texts of at most `cap.chars`
 * @param hint added to the numbers in the notice
 */
export function capText(text: string, cap: OutputCap, count: TokenCounter, hint: string): CappedText {
  const cutTo = (chars: number): CappedText => {
    const { text: kept, truncated } = keepHeadAndTail(text, chars, hint);
    return { text: kept, tokens: count(kept), truncated };
  };
  let most = Math.min(text.length, cap.chars);
  const whole = cutTo(most);
  if (whole.tokens <= cap.tokens) return whole;
  let best = cutTo(0);
  let least = 0;
  while (most - least > Math.max(1, most * SEARCH_PRECISION)) {
    const middle = Math.floor((least + most) / 2);
    const candidate = cutTo(middle);
    if (candidate.tokens <= cap.tokens) {
      best = candidate;
      least = middle;
    } else {
      most = middle;
    }
  }
  return best;
}

/** Tokens of a longer text are extrapolated from its beginning: the number is only shown. */
const MAX_COUNTED_CHARS = 1_000_000;

export function countAnyLength(text: string, count: TokenCounter): number {
  if (text.length <= MAX_COUNTED_CHARS) return count(text);
  return Math.ceil((count(text.slice(0, MAX_COUNTED_CHARS)) * text.length) / MAX_COUNTED_CHARS);
}
