import type { Part, ViewMessage } from '../../transcript/message.ts';
import type { Thresholds } from '../limits/thresholds.ts';
import { type CompactPlan, listBounds } from './compaction-plan.ts';
import { composeSummary } from './summary-document.ts';

export type CompactedView = Readonly<{ parts: readonly Part[]; view: readonly ViewMessage[] }>;

/**
 * Builds the view of a plan from the text that replaces its head.
 * @param body a model's summary, or the notice of a removal
 * @param round number of this summary in the chain
 */
export function compactedView(
  plan: CompactPlan,
  { round, body, thresholds }: Readonly<{ round: number; body: string; thresholds: Pick<Thresholds, 'summaryTokens'> }>,
): CompactedView {
  const { uptoSeq, firstUser, userMessages, resources, carried, previousSummary } = plan;
  const fromSeq = previousSummary?.fromSeq ?? plan.fromSeq;
  const document = { round, fromSeq, uptoSeq, firstUser, body, userMessages, resources };
  const text = composeSummary(document, listBounds(thresholds));
  const parts: Part[] = [{ type: 'compaction', text }, ...carried];
  const summary: ViewMessage = { id: '', seq: uptoSeq, role: 'user', model: null, parts };
  return { parts, view: [summary, ...withTailMarks(plan)] };
}

function withTailMarks({ tail, marks }: CompactPlan): ViewMessage[] {
  return tail.map((message) => ({
    ...message,
    parts: message.parts.map((part, index) => {
      const mark = marks.find(({ messageId, index: at }) => messageId === message.id && at === index);
      return mark === undefined ? part : { ...part, marks: { ...part.marks, viewLimitChars: mark.viewLimitChars } };
    }),
  }));
}
