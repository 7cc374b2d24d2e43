import type { ViewMessage } from '../../transcript/message.ts';
import type { Usage } from '../../usage.ts';
import { learn, type SampleRefusal } from './calibration.ts';
import type { ContextMeter } from './context-meter.ts';
import { coveredTokens, estimateAfter, estimateMessages } from './measure.ts';
import { hasMediaAfter } from './silent-overflow.ts';
import type { ContextState } from './state.ts';

export type AnsweredCall = Readonly<{
  view: readonly ViewMessage[];
  usage: Usage;
  messageSeq: number;
  /** The measure of the request. Default: the bill is believed. */
  expectedTokens?: number;
}>;

/** A measure is never so many times the bill. A bill below that lacks a part, and is no anchor. */
const LEAST_BILLED_SHARE = 0.25;
/** Below this many tokens the two may differ by any factor. */
const LEAST_DOUBTED_TOKENS = 2_000;

const isBelievable = ({ usage, expectedTokens = 0 }: AnsweredCall): boolean =>
  usage.inputTokens > 0 &&
  (expectedTokens < LEAST_DOUBTED_TOKENS || usage.inputTokens >= LEAST_BILLED_SHARE * expectedTokens);

/** State after a successful call: it is the new anchor, the ratio has learned from it, and the breaker is reset. */
export function afterCall(
  meter: ContextMeter,
  state: ContextState,
  call: AnsweredCall,
): Readonly<{ state: ContextState; refused: SampleRefusal | null }> {
  const { state: calibration, refused } = learn(meter.calibrationOf(state), sampleOf(meter, state, call));
  return {
    state: {
      ...state,
      model: meter.model,
      anchor: isBelievable(call) ? { usage: call.usage, messageSeq: call.messageSeq } : null,
      calibration,
      overheadTokens: meter.overheadTokens.instructions + meter.overheadTokens.tools,
      compactionsSinceStep: 0,
      overflow: null,
      outputCap: null,
      remedies: null,
    },
    refused,
  };
}

function sampleOf(
  meter: ContextMeter,
  state: ContextState,
  { view, usage }: AnsweredCall,
): Parameters<typeof learn>[1] {
  const anchor = meter.anchorOf(state);
  const covered = coveredTokens(view, anchor, meter.model);
  const isFirst = state.model === null;
  const estimatedTokens =
    covered !== null && anchor !== null
      ? estimateAfter(view, anchor, meter.count, meter.model)
      : wholeEstimate(meter, view);
  return {
    outcome: 'completed',
    inputTokens: usage.inputTokens,
    previousInputTokens: anchor?.usage.inputTokens ?? 0,
    coveredTokens: covered ?? 0,
    estimatedTokens,
    limitTokens: meter.limits.contextWindow,
    changed: {
      model: !isFirst && state.model !== meter.model,
      tools: meter.hasOtherOverhead(state),
      // Without an anchor the previous call was sent another view, unless this is the first call.
      view: covered === null && !isFirst,
      media: hasMediaAfter(view, covered === null ? 0 : (anchor?.messageSeq ?? 0)),
    },
  };
}

function wholeEstimate(meter: ContextMeter, view: readonly ViewMessage[]): number {
  const messages = Object.values(estimateMessages(view, meter.count, meter.model));
  const { instructions, tools } = meter.overheadTokens;
  return messages.reduce((sum, tokens) => sum + tokens, instructions + tools);
}
