import type { ViewMessage } from '../../transcript/message.ts';
import type { ContextMeter } from '../meter/context-meter.ts';
import type { ContextState } from '../meter/state.ts';
import type { PlanInput } from './compaction-plan.ts';

/** Real tokens of a text for the meter's model. */
export function countRealTokens(meter: ContextMeter, state: ContextState): (text: string) => number {
  const ratio = meter.ratioOf(state);
  return (text) => Math.ceil(ratio * meter.count(text));
}

/** Counts without an anchor, because the old bill says nothing about the new view. */
export function planInputOf(
  meter: ContextMeter,
  state: ContextState,
  view: readonly ViewMessage[],
  pending: Pick<NonNullable<ContextState['pending']>, 'reason' | 'stripMedia'>,
): Omit<PlanInput, 'bodyTokens'> {
  const { thresholds, overheadTokens, policy } = meter;
  const { keepRecentMessages, preserveLastNTurns } = policy.compaction.options;
  const overhead = Math.ceil(meter.ratioOf(state) * (overheadTokens.instructions + overheadTokens.tools));
  const unanchored = { ...state, anchor: null };
  return {
    view,
    tokensOf: (message) => meter.measure([message], unanchored).total - overhead,
    countText: countRealTokens(meter, state),
    overheadTokens: overhead,
    thresholds,
    keepRecentMessages,
    preserveLastNTurns,
    mayRepeat: pending.reason === 'overflow',
    stripMedia: pending.stripMedia,
  };
}
