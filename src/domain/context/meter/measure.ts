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
import { shareOut } from './share-out.ts';
import type { TokenCounter } from './tokens.ts';

/** What every request carries beside the messages: estimated tokens, before the ratio. */
export type OverheadTokens = Readonly<{ instructions: number; tools: number }>;

/** A tool as the request describes it. */
export type ToolDescription = Readonly<{ name: string; description?: string; inputSchema: Json }>;

const TOOL_FRAME_TOKENS = 12;

type Estimated = Readonly<{ instructions: string; count: TokenCounter; tokens: OverheadTokens }>;

const estimated = new WeakMap<readonly ToolDescription[], Estimated>();

/** Estimated tokens of the instructions and the tool schemas. The same list of tools is counted once. */
export function estimateOverhead(
  instructions: string,
  tools: readonly ToolDescription[],
  count: TokenCounter,
): OverheadTokens {
  const known = estimated.get(tools);
  if (known?.instructions === instructions && known.count === count) return known.tokens;
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
 * The last model call of a session: what the provider billed, and the assistant message that it wrote. Valid until
 * something rewrites what that call was sent: a prune, a compaction, other instructions or tools, another model.
 */
export type Anchor = Readonly<{ usage: Usage; messageSeq: number }>;

export type MeasureInput = Readonly<{
  view: readonly ViewMessage[];
  /** `provider/model` of the next request. */
  model: string;
  overheadTokens: OverheadTokens;
  /** Null when there was no call yet or what it was sent has been rewritten. */
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
  /** With an anchor worked out when it is first asked for: it takes the whole view, which the total does not. */
  byKind: Readonly<Record<TokenKind, number>>;
  /** True when the total rests on what a provider billed. */
  isAnchored: boolean;
}>;

/**
 * The tokens of the next request, measured in one place: triggers, acceptance of a compaction, the meter and the events all
 * read it. With an anchor, what the provider billed (input, cache included, plus output, minus reasoning that is not
 * sent again) plus `ratio` times the estimate of what came after; without, `ratio` times the estimate of everything.
 * Never negative; appending to the view never lowers it.
 *
 * An anchor whose message the view does not hold, or that another model wrote, or that billed nothing, does not count.
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

/** With an anchor only the shares of the kinds are wanted. */
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
 * What the next request certainly holds: what the anchor billed, without reasoning that is not sent again. Null when
 * the anchor does not fit the view or the model.
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
 * Estimated tokens, before the ratio, that the next request holds beyond the anchor's call: the results of the calls
 * that it made, and every later message. The estimate that a calibration sample compares with what was billed.
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

/** Estimated tokens of the messages by kind, before the ratio. */
export function estimateMessages(view: readonly ViewMessage[], count: TokenCounter, model: string): MessageTokens {
  return sumOf(view.map((message) => estimateMessage(message, count, { model })));
}
