import { judgeSizes, type Refusal } from '../domain/context/compaction-outcome.ts';
import { type CompactPlan, listBounds } from '../domain/context/compaction-plan.ts';
import type { CompactionReason, ContextState } from '../domain/context/state.ts';
import { composeSummary } from '../domain/context/summary-document.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import type { NewEvent } from '../domain/events.ts';
import type { Part, ViewMessage } from '../domain/message.ts';
import type { NewMark } from '../store/maintenance.ts';
import { endCompaction } from './end-compaction.ts';
import type { Strategy } from './strategy.ts';
import type { CompactionWork } from './work.ts';

/** What came of a strategy's plan. */
export type Result = Readonly<
  | { kind: 'accepted'; plan: CompactPlan; parts: readonly Part[]; model: string | null; tokensAfter: number }
  /** There was a text, but the view with it is no better. */
  | { kind: 'rejected'; error: ErrorRecord; tokensAfter: number }
  | { kind: 'failed'; error: ErrorRecord }
>;

/** Has the strategy write, puts the new view together, and judges it by the ruler that asked for the compaction. */
export async function resultOf(work: CompactionWork, strategy: Strategy, planned: CompactPlan): Promise<Result> {
  const draft = await strategy.execute(work, planned);
  if (!draft.ok) return { kind: 'failed', error: draft.error };
  const plan = draft.plan ?? planned;
  const parts = partsOf(work, plan, draft.body);
  const { ruler, scope } = work;
  const newView = [messageOf(parts, plan), ...withMarks(plan)];
  const tokensAfter = ruler.measure(newView, { ...scope.contextState, anchor: null }).total;
  const refusal = judgeSizes({
    tokensBefore: plan.tokensBefore,
    tokensAfter,
    targetTokens: plan.targetTokens,
    reductionShare: ruler.thresholds.compactionReductionShare,
  });
  if (refusal !== null) return { kind: 'rejected', error: rejection(refusal, plan, tokensAfter), tokensAfter };
  return { kind: 'accepted', plan, parts, model: draft.model, tokensAfter };
}

function partsOf({ round, ruler }: CompactionWork, plan: CompactPlan, body: string): Part[] {
  const { uptoSeq, firstUser, resources, carried, previousSummary } = plan;
  const fromSeq = previousSummary?.fromSeq ?? plan.fromSeq;
  const document = { round, fromSeq, uptoSeq, firstUser, body, resources };
  return [{ type: 'compaction', text: composeSummary(document, listBounds(ruler.thresholds)) }, ...carried];
}

function messageOf(parts: readonly Part[], { uptoSeq }: CompactPlan): ViewMessage {
  return { id: '', seq: uptoSeq, role: 'user', model: null, parts };
}

function withMarks({ tail, marks }: CompactPlan): ViewMessage[] {
  return tail.map((message) => ({
    ...message,
    parts: message.parts.map((part, index) => {
      const mark = marks.find(({ messageId, index: at }) => messageId === message.id && at === index);
      return mark === undefined ? part : { ...part, marks: { ...part.marks, viewLimitChars: mark.viewLimitChars } };
    }),
  }));
}

function rejection(refusal: Refusal, plan: CompactPlan, tokensAfter: number): ErrorRecord {
  const why = { not_smaller: 'not smaller', too_little: 'hardly smaller', above_target: 'still too large' }[refusal];
  const sizes = `${tokensAfter} tokens after, ${plan.tokensBefore} before, at most ${plan.targetTokens} wanted`;
  return { code: 'internal', message: `The compacted view was ${why} (${sizes}).` };
}

/** Writes an accepted result: summary, marks, state and what comes next in one transaction. */
export async function writeResult(
  work: CompactionWork,
  written: Readonly<{
    id: string;
    reason: CompactionReason;
    strategy: Strategy;
    result: Extract<Result, { kind: 'accepted' }>;
  }>,
): Promise<void> {
  const { deps, scope, spent } = work;
  const { id, reason, strategy, result } = written;
  const { plan } = result;
  await endCompaction(deps, scope, {
    contextState: compactedState(work, reason, result.tokensAfter),
    events: completedEvents(work, written),
    marks: plan.marks.map((mark): NewMark => mark),
    compaction: {
      id,
      state: 'completed',
      attempts: spent.calls,
      usage: spent.usage,
      costUsd: spent.costUsd,
      strategy: strategy.name,
      uptoSeq: plan.uptoSeq,
      tokensAfter: result.tokensAfter,
      summary: { messageId: deps.newId(), model: result.model, parts: result.parts },
      viewStartSeq: plan.viewStartSeq,
    },
  });
}

function completedEvents(
  { view }: CompactionWork,
  { reason, strategy, result }: Parameters<typeof writeResult>[1],
): NewEvent[] {
  const { plan, tokensAfter, model } = result;
  const { tokensBefore } = plan;
  const messagesCompacted = plan.head.length;
  return [
    {
      type: 'compaction:complete',
      data: {
        tokensBefore,
        tokensAfter,
        messagesCompacted,
        wasPruned: plan.marks.length > 0,
        wasSummarized: model !== null,
      },
    },
    {
      type: 'context:compressed',
      data: {
        originalTokens: tokensBefore,
        compressedTokens: tokensAfter,
        originalMessages: view.length,
        compressedMessages: plan.tail.length + 1,
        strategy: strategy.name,
        reason,
      },
    },
  ];
}

/** What the provider billed before says nothing of the new view. */
function compactedState({ ruler, scope }: CompactionWork, reason: CompactionReason, tokensAfter: number): ContextState {
  const { contextState } = scope;
  const counted = reason === 'manual' ? 0 : 1;
  // Where even the smallest view is above the trigger, the next try waits for it to grow.
  const isAbove = tokensAfter >= ruler.thresholds.compactAtTokens;
  return {
    ...contextState,
    anchor: null,
    pending: null,
    compactionsSinceStep: contextState.compactionsSinceStep + counted,
    failedAtTokens: isAbove ? tokensAfter : null,
  };
}
