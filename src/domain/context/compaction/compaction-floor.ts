import type { ViewMessage } from '../../transcript/message.ts';
import { isStartedBy } from '../limits/policy.ts';
import { MIN_SUMMARY_TOKENS } from '../limits/thresholds.ts';
import type { ContextMeter } from '../meter/context-meter.ts';
import type { ContextState } from '../meter/state.ts';
import { compactsAgainAt, hasRoom } from '../meter/threshold-floor.ts';
import { MAX_FIRST_USER_SHARE } from './compaction-plan.ts';
import { planInputOf } from './plan-input.ts';
import { readSummary } from './summary-document.ts';

/**
 * Says that the threshold of a session leaves little room above what no compaction takes out: instructions, tools, the
 * first message of the user and a summary, or what the last compaction has left. Null: there is room.
 */
export function thresholdWarning(
  meter: ContextMeter,
  state: ContextState,
  view: readonly ViewMessage[],
): string | null {
  if (!isStartedBy(meter.policy, 'threshold')) return null;
  const floorTokens = state.floorTokens ?? leastTokens(meter, state, view);
  const { compactAtTokens } = meter.thresholds;
  if (hasRoom(meter.thresholds, floorTokens)) return null;
  const from = compactsAgainAt(meter, { floorTokens });
  return `The threshold of ${compactAtTokens} tokens leaves too little room above the ${floorTokens} that no compaction takes out, so that compactions after the first one wait for ${from}: raise thresholdPercent, or shorten instructions and tools.`;
}

function leastTokens(meter: ContextMeter, state: ContextState, view: readonly ViewMessage[]): number {
  const { overheadTokens, tokensOf } = planInputOf(meter, state, view, { reason: 'threshold', stripMedia: false });
  const first = readSummary(view) === null ? view.find(({ role }) => role === 'user') : undefined;
  const mostOfFirst = Math.floor(meter.thresholds.compactToTokens * MAX_FIRST_USER_SHARE);
  return overheadTokens + MIN_SUMMARY_TOKENS + (first === undefined ? 0 : Math.min(tokensOf(first), mostOfFirst));
}
