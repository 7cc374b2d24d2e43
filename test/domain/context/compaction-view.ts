import type { CompactionPlan, CompactPlan, PlanInput } from '../../../src/domain/context/compaction-plan.ts';
import { listBounds, planCompaction } from '../../../src/domain/context/compaction-plan.ts';
import { usableOf } from '../../../src/domain/context/limits.ts';
import { estimateMessage, totalOf } from '../../../src/domain/context/message-tokens.ts';
import { composeSummary } from '../../../src/domain/context/summary-document.ts';
import { type Thresholds, thresholdsOf } from '../../../src/domain/context/thresholds.ts';
import type { ViewMessage } from '../../../src/domain/message.ts';
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

/** A body of so many tokens. */
const bodyOf = (tokens: number): string =>
  '## Goal\n## State\n## Next\nwork'.padEnd(Math.floor(tokens) * 4 - 4, ' work');

/** The view after a plan, as the store puts it together. */
export function after(
  { firstUser, carried, resources, fromSeq, uptoSeq, previousSummary, marks, tail, bodyTokens }: CompactPlan,
  thresholds: Thresholds,
  seq: number,
  body = bodyOf(bodyTokens),
): ViewMessage[] {
  const document = { round: 1, fromSeq: previousSummary?.fromSeq ?? fromSeq, uptoSeq, firstUser, body, resources };
  const text = composeSummary(document, listBounds(thresholds));
  const shown = tail.map((message) => ({
    ...message,
    parts: message.parts.map((part, index) => {
      const mark = marks.find(({ messageId, index: at }) => messageId === message.id && at === index);
      return mark === undefined ? part : { ...part, marks: { ...part.marks, viewLimitChars: mark.viewLimitChars } };
    }),
  }));
  return [
    { id: `s${seq}`, seq, role: 'user', model: null, parts: [{ type: 'compaction', text }, ...carried] },
    ...shown,
  ];
}

export const sizeOf = (view: readonly ViewMessage[]): number =>
  OVERHEAD_TOKENS + view.reduce((sum, message) => sum + tokensOf(message), 0);
