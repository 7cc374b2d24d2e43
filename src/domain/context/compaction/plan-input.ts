import type { ViewMessage } from '../../transcript/message.ts';
import type { Ruler } from '../meter/ruler.ts';
import type { ContextState } from '../meter/state.ts';
import type { PlanInput } from './compaction-plan.ts';

/** Real tokens of a text for the ruler's model. */
export function countRealTokens(ruler: Ruler, state: ContextState): (text: string) => number {
  const ratio = ruler.ratioOf(state);
  return (text) => Math.ceil(ratio * ruler.count(text));
}

/**
 * What a compaction is planned from, but for what its strategy decides. Everything is counted without an anchor: what
 * was billed for the view as it was says nothing of the one that it becomes.
 */
export function planInputOf(
  ruler: Ruler,
  state: ContextState,
  view: readonly ViewMessage[],
  pending: Pick<NonNullable<ContextState['pending']>, 'reason' | 'stripMedia'>,
): Omit<PlanInput, 'bodyTokens'> {
  const { thresholds, overheadTokens, policy } = ruler;
  const { keepRecentMessages, preserveLastNTurns } = policy.compaction.options;
  const overhead = Math.ceil(ruler.ratioOf(state) * (overheadTokens.instructions + overheadTokens.tools));
  const unanchored = { ...state, anchor: null };
  return {
    view,
    tokensOf: (message) => ruler.measure([message], unanchored).total - overhead,
    countText: countRealTokens(ruler, state),
    overheadTokens: overhead,
    thresholds,
    keepRecentMessages,
    preserveLastNTurns,
    mayRepeat: pending.reason === 'overflow',
    stripMedia: pending.stripMedia,
  };
}
