import type { OverflowNumbers } from '../../model/overflow-limit.ts';
import type { OverflowClass } from '../../model/provider-overflow-rules.ts';
import { hasFiles } from '../../model/shown-media.ts';
import type { FinishReason, ViewMessage } from '../../transcript/message.ts';
import type { Usage } from '../../usage.ts';
import { type Anchor, coveredTokens, estimateAfter } from './measure.ts';

export type AnsweredRequest = Readonly<{
  usage: Usage;
  finishReason: FinishReason;
  /** The provider's own finish reason, as the SDK passes it on; null: none. */
  rawFinishReason: string | null;
  /** Null: the window is a guess, which proves nothing. */
  contextWindow: number | null;
  expectedInputTokens: number;
  /** Lower bounds of the request; null: the measure is only an estimate. */
  certain: CertainRequest | null;
}>;

/** Certain sizes of a request that continues the previous call. */
export type CertainRequest = Readonly<{
  /** Input billed for the previous call: the provider accepted that much. */
  acceptedTokens: number;
  /** Least size of this request: the previous bill, its answer, and one token for every word since. */
  leastTokens: number;
}>;

/**
 * The sign of a silent overflow, and the fate of the answer:
 * - `above_window`: the provider took more than the window holds. Keep the answer; compact before the next step.
 * - `window_full`: the window cut the answer off. Keep it; compact before going on.
 * - `no_answer`: the request filled the window. Compact and take the same step again.
 * - `cut_request`: the model did not see the whole history. Drop the answer, unless it has tool calls; compact.
 */
type SilentSign = 'above_window' | 'window_full' | 'no_answer' | 'cut_request';

export type SilentOverflow = Readonly<{
  class: Extract<OverflowClass, 'input_overflow'> | 'silent_truncation';
  sign: SilentSign;
  overflow: OverflowNumbers | null;
}>;

/** Anthropic, Bedrock and z.ai; Mistral. The SDK maps both to `length`, like an answer at its own maximum. */
const WINDOW_FULL = ['model_context_window_exceeded', 'model_length'];

/** Xiaomi MiMo and LM Studio end a request that fills this share of the window with `length` and no answer. */
const FULL_SHARE = 0.99;
/** Bills are off by a few percent. One below this share means that the request was cut. */
const CUT_SHARE = 0.7;
/**
 * Ollama keeps half of its window and two tokens. Far below half of the accepted size the request was not cut: the
 * provider bills calls unevenly, and believing it would lower the limit of every session.
 */
const KEPT_SHARE = 0.45;
/** No server runs a smaller window: a smaller usage was not reported, or lacks its cached part. */
const MIN_CUT_TOKENS = 1_024;

/**
 * Detects an overflow without an error, by usage and finish reason; null: none. The limit of a cut request is the part
 * that the provider let through: the real window may be larger (Ollama keeps about half), but the model never saw more.
 */
export function silentOverflow(answer: AnsweredRequest): SilentOverflow | null {
  const { usage, finishReason, rawFinishReason, contextWindow } = answer;
  if (rawFinishReason !== null && WINDOW_FULL.includes(rawFinishReason.toLowerCase())) {
    return { class: 'input_overflow', sign: 'window_full', overflow: null };
  }
  if (contextWindow !== null && usage.inputTokens > contextWindow) {
    return { class: 'input_overflow', sign: 'above_window', overflow: null };
  }
  const isFull = contextWindow !== null && usage.inputTokens >= FULL_SHARE * contextWindow;
  if (finishReason === 'length' && usage.outputTokens === 0 && isFull) {
    return { class: 'input_overflow', sign: 'no_answer', overflow: null };
  }
  return wasCut(answer) ? { class: 'silent_truncation', sign: 'cut_request', overflow: cutAt(answer) } : null;
}

function wasCut({ usage, certain }: AnsweredRequest): boolean {
  if (certain === null || usage.inputTokens < MIN_CUT_TOKENS) return false;
  if (usage.inputTokens < KEPT_SHARE * certain.acceptedTokens) return false;
  // Some providers report the input without its cached part: the request was cut only if both together are too small.
  const seenTokens = usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens;
  return seenTokens < CUT_SHARE * certain.leastTokens;
}

function cutAt({ usage, expectedInputTokens }: AnsweredRequest): OverflowNumbers {
  return {
    limitTokens: usage.inputTokens,
    scope: 'input',
    requestedTokens: expectedInputTokens,
    inputTokens: expectedInputTokens,
    outputTokens: null,
    outputRoomTokens: null,
    isLasting: true,
  };
}

/**
 * Lower bounds of a request with this view. Null: no previous call that it continues, or later files of unknown size.
 *
 * Tokenizers never join words across white space, so a text has at least a token per word. An estimate may be far too
 * high, for instance for a page of one letter.
 */
export function certainOf(view: readonly ViewMessage[], anchor: Anchor | null, model: string): CertainRequest | null {
  const covered = coveredTokens(view, anchor, model);
  if (anchor === null || covered === null || hasMediaAfter(view, anchor.messageSeq)) return null;
  const leastTokens = covered + estimateAfter(view, anchor, countWords, model);
  return { acceptedTokens: anchor.usage.inputTokens, leastTokens };
}

/** Whether an image or a file came after the model call that wrote message `seq`, results of its calls included. */
export function hasMediaAfter(view: readonly ViewMessage[], seq: number): boolean {
  return view.some((message) => message.seq >= seq && hasFiles(message));
}

function countWords(text: string): number {
  let words = 0;
  let isInside = false;
  for (let index = 0; index < text.length; index++) {
    const isBlank = text.charCodeAt(index) <= 0x20;
    if (!isBlank && !isInside) words++;
    isInside = !isBlank;
  }
  return words;
}
