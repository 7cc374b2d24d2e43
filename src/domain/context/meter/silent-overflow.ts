import type { OverflowNumbers } from '../../model/overflow-limit.ts';
import type { OverflowClass } from '../../model/provider-overflow-rules.ts';
import { hasFiles } from '../../model/shown-media.ts';
import type { FinishReason, ViewMessage } from '../../transcript/message.ts';
import type { Usage } from '../../usage.ts';
import { type Anchor, coveredTokens, estimateAfter } from './measure.ts';

/** A whole answer, and what was expected of its request. */
export type AnsweredRequest = Readonly<{
  usage: Usage;
  finishReason: FinishReason;
  /** The provider's own word for it, as the SDK passes it on with the end of the call; null when there is none. */
  rawFinishReason: string | null;
  /** Null for a model that nobody described: a guessed window proves nothing. */
  contextWindow: number | null;
  /** The measure of the request before it was sent. */
  expectedInputTokens: number;
  /** What is certain of the request; null where the measure is an estimate only. */
  certain: CertainRequest | null;
}>;

/** What a provider that took the call before must have been sent with this one. */
export type CertainRequest = Readonly<{
  /** Billed for the call before: so much went through. */
  acceptedTokens: number;
  /** The request holds this at least: what was billed before, its answer, and one token for every word since. */
  leastTokens: number;
}>;

/**
 * By what an overflow shows itself, and so what becomes of the answer:
 * `above_window`: the provider took more than the window holds. The answer is good; compact before the next step.
 * `window_full`: the answer broke off at the end of the window. What came of it is good; compact before going on.
 * `no_answer`: the request filled the window and no answer fitted. Compact and take the same step again.
 * `cut_request`: the provider cut the request. The model did not see the history; its answer is one to something else.
 */
type SilentSign = 'above_window' | 'window_full' | 'no_answer' | 'cut_request';

export type SilentOverflow = Readonly<{
  class: Extract<OverflowClass, 'input_overflow'> | 'silent_truncation';
  sign: SilentSign;
  overflow: OverflowNumbers | null;
}>;

/** Anthropic, Bedrock and z.ai; Mistral. The SDK calls both `length`, as an answer at its own maximum. */
const WINDOW_FULL = ['model_context_window_exceeded', 'model_length'];

/** Xiaomi MiMo and LM Studio end a request that fills this much of the window with `length` and without an answer. */
const FULL_SHARE = 0.99;
/** Bills are off by a few percent; what is off by this much was cut. */
const CUT_SHARE = 0.7;
/**
 * Ollama keeps half of its window and two tokens. What fell far below half of what went through before was not
 * cut at the same window: a provider that bills otherwise from one call to the next, and to believe it would
 * lower the limit of every session.
 */
const KEPT_SHARE = 0.45;
/** Nobody runs a smaller window: less is a usage that was not reported, or without its cached part. */
const MIN_CUT_TOKENS = 1_024;

/**
 * The overflow that no error tells of, seen in an answer's usage and end. Null for an answer that is what it seems. Of
 * a cut request the limit is what the provider let through: Ollama keeps about half of its window, so the real one may
 * be larger, but nothing beyond was ever seen by the model.
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
  // Some report the input without its cached part: nothing was cut as long as both together are what was sent.
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
 * What is certain of a request with this view. Null without a call before that it continues, and where images or files
 * came since: their tokens are a guess. Tokenizers never join words across white space, so a text has a token for each
 * of its words, whatever else it is: an estimate may be far too high for a page of one letter.
 */
export function certainOf(view: readonly ViewMessage[], anchor: Anchor | null, model: string): CertainRequest | null {
  const covered = coveredTokens(view, anchor, model);
  if (anchor === null || covered === null || hasMediaAfter(view, anchor.messageSeq)) return null;
  const leastTokens = covered + estimateAfter(view, anchor, countWords, model);
  return { acceptedTokens: anchor.usage.inputTokens, leastTokens };
}

/** Whether an image or a file came after the model call that wrote the message `seq`, results of its calls included. */
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
