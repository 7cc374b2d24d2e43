import { compactedView } from '../../../src/domain/context/compaction/compacted-view.ts';
import {
  type CompactionPlan,
  type CompactPlan,
  type PlanInput,
  planCompaction,
} from '../../../src/domain/context/compaction/compaction-plan.ts';
import { usableOf } from '../../../src/domain/context/limits/limits.ts';
import { type Thresholds, thresholdsOf } from '../../../src/domain/context/limits/thresholds.ts';
import { estimateMessage, totalOf } from '../../../src/domain/context/meter/message-tokens.ts';
import type { ViewMessage } from '../../../src/domain/transcript/message.ts';
import { MODEL } from './measure-view.ts';

export const countText = (text: string): number => Math.ceil(text.length / 4);
export const tokensOf = (message: ViewMessage): number =>
  totalOf(estimateMessage(message, countText, { model: MODEL }));

export function thresholdsFor(contextWindow: number): Thresholds {
  return thresholdsOf(usableOf({ contextWindow, maxOutput: 32_000 }), contextWindow);
}

export const OVERHEAD_TOKENS = 500;

/** The plan of the default strategy. */
export function plan(
  view: readonly ViewMessage[],
  thresholds: Thresholds,
  rest: Partial<PlanInput> = {},
): CompactionPlan {
  return planCompaction({
    view,
    tokensOf,
    countText,
    overheadTokens: OVERHEAD_TOKENS,
    thresholds,
    bodyTokens: () => thresholds.summaryTokens,
    mayRepeat: false,
    stripMedia: false,
    ...rest,
  });
}

/** A body of this many tokens. */
const bodyOf = (tokens: number): string =>
  '## Goal\n## State\n## Next\nwork'.padEnd(Math.floor(tokens) * 4 - 4, ' work');

/** The view after the compaction; the summary's message gets `seq`. */
export function compacted(
  planned: CompactPlan,
  thresholds: Thresholds,
  seq: number,
  body = bodyOf(planned.bodyTokens),
): ViewMessage[] {
  const [summary, ...tail] = compactedView(planned, { round: 1, body, thresholds }).view;
  return summary === undefined ? tail : [{ ...summary, id: `s${seq}`, seq }, ...tail];
}

export const sizeOf = (view: readonly ViewMessage[]): number =>
  OVERHEAD_TOKENS + view.reduce((sum, message) => sum + tokensOf(message), 0);
