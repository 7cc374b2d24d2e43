import type { ViewMessage } from '../../transcript/message.ts';
import type { Usage } from '../../usage.ts';
import { learn, type SampleRefusal } from './calibration.ts';
import { coveredTokens, estimateAfter, estimateMessages } from './measure.ts';
import type { Ruler } from './ruler.ts';
import { hasMediaAfter } from './silent-overflow.ts';
import type { ContextState } from './state.ts';

/** A model call whose whole answer is there. */
export type AnsweredCall = Readonly<{
  /** The view that the call was sent. */
  view: readonly ViewMessage[];
  usage: Usage;
  /** The number of the assistant message that it wrote. */
  messageSeq: number;
}>;

/**
 * What a session knows after a call that succeeded: the call is the new anchor, the ratio has learned from it, and the
 * breaker is closed again.
 */
export function afterCall(
  ruler: Ruler,
  state: ContextState,
  call: AnsweredCall,
): Readonly<{ state: ContextState; refused: SampleRefusal | null }> {
  const { state: calibration, refused } = learn(ruler.calibrationOf(state), sampleOf(ruler, state, call));
  return {
    state: {
      ...state,
      model: ruler.model,
      anchor: call.usage.inputTokens > 0 ? { usage: call.usage, messageSeq: call.messageSeq } : null,
      calibration,
      overheadTokens: ruler.overheadTokens.instructions + ruler.overheadTokens.tools,
      compactionsSinceStep: 0,
      overflow: null,
      outputCap: null,
    },
    refused,
  };
}

function sampleOf(ruler: Ruler, state: ContextState, { view, usage }: AnsweredCall): Parameters<typeof learn>[1] {
  const anchor = ruler.anchorOf(state);
  const covered = coveredTokens(view, anchor, ruler.model);
  const isFirst = state.model === null;
  const estimatedTokens =
    covered !== null && anchor !== null
      ? estimateAfter(view, anchor, ruler.count, ruler.model)
      : wholeEstimate(ruler, view);
  return {
    outcome: 'completed',
    inputTokens: usage.inputTokens,
    previousInputTokens: anchor?.usage.inputTokens ?? 0,
    coveredTokens: covered ?? 0,
    estimatedTokens,
    limitTokens: ruler.limits.contextWindow,
    changed: {
      model: !isFirst && state.model !== ruler.model,
      tools: ruler.hasOtherOverhead(state),
      // Without an anchor the call before was sent something else, unless there was none.
      view: covered === null && !isFirst,
      media: hasMediaAfter(view, covered === null ? 0 : (anchor?.messageSeq ?? 0)),
    },
  };
}

function wholeEstimate(ruler: Ruler, view: readonly ViewMessage[]): number {
  const messages = Object.values(estimateMessages(view, ruler.count, ruler.model));
  const { instructions, tools } = ruler.overheadTokens;
  return messages.reduce((sum, tokens) => sum + tokens, instructions + tools);
}
