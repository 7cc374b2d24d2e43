import type { OutputItem, ToolOutput } from '../../transcript/message.ts';
import { fileNotice } from '../../transcript/output-text.ts';
import { keepHeadAndTail } from '../../truncate.ts';
import type { Thresholds } from '../limits/thresholds.ts';
import { estimateFile } from '../meter/file-tokens.ts';
import type { TokenCounter } from '../meter/tokens.ts';

/** The tool calls of one message, while their results come in. */
export type ToolBatch = Readonly<{
  /** Calls without a result yet. */
  openCalls: number;
  /** Tokens that the view shows of the results so far. */
  usedTokens: number;
}>;

/** How much of a tool's output the view shows: both hold. */
export type OutputCap = Readonly<{ tokens: number; chars: number }>;

/** What a call may show however many others there are: the notice of what was cut out, and a few lines. */
export const MIN_OUTPUT_TOKENS = 128;

/**
 * What the next result of a batch may show: no more than one output may, and an equal share of what the batch has left.
 * A result that takes less leaves more to the ones after it, so a share never shrinks while others come in. Only the
 * minimum for a call may carry a batch above its budget: one of very many calls in a very small window.
 * @param toolLimitChars of the tool itself
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

/** The batch after a result of which the view shows that many tokens. */
export function afterResult({ openCalls, usedTokens }: ToolBatch, tokens: number): ToolBatch {
  return { openCalls: Math.max(0, openCalls - 1), usedTokens: usedTokens + tokens };
}

export type FittedFiles = Readonly<{ output: ToolOutput; tokens: number }>;

/**
 * As many of an output's files as its cap allows, from the first on; the others are named. An output of a hundred
 * screenshots would fill any window.
 * @returns with the tokens of the files that stay
 */
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

/** A text within its cap. */
export type CappedText = Readonly<{ text: string; tokens: number; truncated: boolean }>;

/** Close enough to the cap: each step further costs another count of the text. */
const SEARCH_PRECISION = 1 / 64;

/**
 * Head and tail of a text, as much as the cap allows by the text's own tokens (digits and CJK are dearer than prose),
 * and between them how much was cut out. The result is never above the cap, unless the notice alone is.
 * @param count tokens of a text; called some ten times with texts of at most `cap.chars`
 * @param hint what the notice says beside the numbers
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

/** Beyond this the tokens of a text are reckoned from its beginning: the number is shown, nothing depends on it. */
const MAX_COUNTED_CHARS = 1_000_000;

/** Tokens of a text of any length. */
export function countAnyLength(text: string, count: TokenCounter): number {
  if (text.length <= MAX_COUNTED_CHARS) return count(text);
  return Math.ceil((count(text.slice(0, MAX_COUNTED_CHARS)) * text.length) / MAX_COUNTED_CHARS);
}
