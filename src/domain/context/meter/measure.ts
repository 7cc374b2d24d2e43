import { shownParts } from '../../model/shown-parts.ts';
import type { Json, ViewMessage } from '../../transcript/message.ts';
import type { Usage } from '../../usage.ts';
import {
  estimateMessage,
  estimateToolResult,
  MESSAGE_TOKEN_KINDS,
  type MessageTokens,
  replayedReasoning,
  sumOf,
  totalOf,
} from './message-tokens.ts';
import type { TokenCounter } from './tokens.ts';

/** Estimated tokens, before the ratio. */
export type OverheadTokens = Readonly<{ instructions: number; tools: number }>;

export type ToolDescription = Readonly<{ name: string; description?: string; inputSchema: Json }>;

const TOOL_FRAME_TOKENS = 12;

type Estimated = Readonly<{ instructions: string; count: TokenCounter; tokens: OverheadTokens }>;

const estimated = new WeakMap<readonly ToolDescription[], Estimated>();

/** Estimated tokens of the instructions and the tool schemas. Cached per list of tools. */
export function estimateOverhead(
  instructions: string,
  tools: readonly ToolDescription[],
  count: TokenCounter,
): OverheadTokens {
  const cached = estimated.get(tools);
  if (cached?.instructions === instructions && cached.count === count) return cached.tokens;
  const tokens = countOverhead(instructions, tools, count);
  estimated.set(tools, { instructions, count, tokens });
  return tokens;
}

function countOverhead(instructions: string, tools: readonly ToolDescription[], count: TokenCounter): OverheadTokens {
  const schemas = tools.map(
    ({ name, description, inputSchema }) =>
      TOOL_FRAME_TOKENS + count(name) + count(description ?? '') + count(JSON.stringify(inputSchema)),
  );
  return { instructions: count(instructions), tools: schemas.reduce((sum, tokens) => sum + tokens, 0) };
}

/**
 * The last model call of a session: its bill, and the assistant message that it wrote. Invalid once the sent content
 * changes: by a prune, a compaction, other instructions or tools, or another model.
 */
export type Anchor = Readonly<{ usage: Usage; messageSeq: number }>;

export type MeasureInput = Readonly<{
  view: readonly ViewMessage[];
  model: string;
  overheadTokens: OverheadTokens;
  /** Null: no call yet, or its content has changed since. */
  anchor: Anchor | null;
  /** Real tokens per estimated token: `ratioOf` of the session's calibration. */
  ratio: number;
  count: TokenCounter;
}>;

export const TOKEN_KINDS = ['instructions', 'tools', ...MESSAGE_TOKEN_KINDS] as const;
type TokenKind = (typeof TOKEN_KINDS)[number];

/** Tokens of the next request. The kinds add up to the total. */
export type Measurement = Readonly<{
  total: number;
  /** With an anchor computed on first access, because it takes the whole view. */
  byKind: Readonly<Record<TokenKind, number>>;
  /** True: the total rests on a provider's bill. */
  isAnchored: boolean;
}>;

/**
 * Measures the next request. Triggers, the acceptance of a compaction, the meter and the events all use this measure.
 *
 * - With an anchor: the bill (input with cache, plus output, minus reasoning that is not sent again), plus `ratio`
 *   times the estimate of newer content.
 * - Without one: `ratio` times the estimate of everything. An anchor does not count if the view lacks its message, if
 *   another model wrote it, or if nothing was billed.
 *
 * Never negative; appending to the view never lowers it.
 */
export function measure(input: MeasureInput): Measurement {
  const anchored = anchoredTokens(input);
  if (anchored !== null) return anchoredMeasurement(anchored, input);
  const estimate = estimateKinds(input, input.count);
  const everything = TOKEN_KINDS.reduce((sum, kind) => sum + estimate[kind], 0);
  const total = Math.ceil(input.ratio * everything);
  return { total, byKind: shareOut(total, estimate, TOKEN_KINDS), isAnchored: false };
}

type TokensByKind = Measurement['byKind'];

function anchoredMeasurement(total: number, input: MeasureInput): Measurement {
  let byKind: TokensByKind | undefined;
  return {
    total,
    get byKind() {
      byKind ??= shareOut(total, estimateKinds(input, countForShares), TOKEN_KINDS);
      return byKind;
    },
    isAnchored: true,
  };
}

/** Good enough for the shares of the kinds: the total comes from the anchor. */
const countForShares: TokenCounter = (text) => text.length / 4;

function estimateKinds({ overheadTokens, view, model }: MeasureInput, count: TokenCounter): TokensByKind {
  return { ...overheadTokens, ...estimateMessages(view, count, model) };
}

function anchoredTokens(input: MeasureInput): number | null {
  const covered = coveredTokens(input.view, input.anchor, input.model);
  if (covered === null || input.anchor === null) return null;
  return covered + Math.ceil(input.ratio * estimateAfter(input.view, input.anchor, input.count, input.model));
}

/**
 * Certain tokens of the next request: the anchor's bill, without reasoning that is not sent again. Null: the anchor
 * does not match the view or the model.
 */
export function coveredTokens(view: readonly ViewMessage[], anchor: Anchor | null, model: string): number | null {
  if (anchor === null || anchor.usage.inputTokens === 0) return null;
  const message = view.findLast((candidate) => candidate.seq === anchor.messageSeq);
  if (message?.role !== 'assistant' || message.model !== model) return null;
  const { inputTokens, outputTokens, reasoningTokens } = anchor.usage;
  const isReplayed = replayedReasoning(message, model).length > 0;
  return inputTokens + Math.max(0, outputTokens - (isReplayed ? 0 : reasoningTokens));
}

/**
 * Estimated tokens, before the ratio, after the anchor: the results of its calls, and later messages. A calibration
 * sample compares this estimate with the bill.
 */
export function estimateAfter(
  view: readonly ViewMessage[],
  anchor: Anchor,
  count: TokenCounter,
  model: string,
): number {
  let tokens = 0;
  for (const message of view) {
    if (message.seq > anchor.messageSeq) tokens += totalOf(estimateMessage(message, count, { model }));
    else if (message.seq === anchor.messageSeq) tokens += estimateResults(message, count);
  }
  return tokens;
}

function estimateResults(message: ViewMessage, count: TokenCounter): number {
  return shownParts(message).reduce(
    (sum, part) => sum + (part.type === 'tool' ? estimateToolResult(part, count) : 0),
    0,
  );
}

export function estimateMessages(view: readonly ViewMessage[], count: TokenCounter, model: string): MessageTokens {
  return sumOf(view.map((message) => estimateMessage(message, count, { model })));
}

/**
 * Splits a whole number in proportion to weights, into whole shares that add up to it. Units lost by rounding down go
 * to the largest remainders; without weights the first key gets everything.
 */
function shareOut<Key extends string>(
  total: number,
  weights: Readonly<Record<Key, number>>,
  keys: readonly [Key, ...Key[]],
): Record<Key, number> {
  const sum = keys.reduce((weight, key) => weight + weights[key], 0);
  const exact = keys.map((key, index) => (sum > 0 ? (total * weights[key]) / sum : index === 0 ? total : 0));
  const shares = exact.map(Math.floor);
  const left = total - shares.reduce((whole, share) => whole + share, 0);
  const byRemainder = exact
    .map((value, index) => ({ index, remainder: value - Math.floor(value) }))
    .toSorted((a, b) => b.remainder - a.remainder || a.index - b.index);
  for (const { index } of byRemainder.slice(0, left)) shares[index] = (shares[index] ?? 0) + 1;
  return Object.fromEntries(keys.map((key, index) => [key, shares[index] ?? 0])) as Record<Key, number>;
}
