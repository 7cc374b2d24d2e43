import { logFields } from '../claims/job-scope.ts';
import { compactedView } from '../domain/context/compaction/compacted-view.ts';
import { afterCompaction, judgeSizes, type Refusal } from '../domain/context/compaction/compaction-outcome.ts';
import type { CompactPlan } from '../domain/context/compaction/compaction-plan.ts';
import type { CompactionReason, ContextState } from '../domain/context/meter/state.ts';
import { compactsAgainAt } from '../domain/context/meter/threshold-floor.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { Part } from '../domain/transcript/message.ts';
import type { NewMark } from '../store/work/maintenance.ts';
import { endCompaction } from './end-compaction.ts';
import type { Strategy, Unanswered } from './strategy.ts';
import type { CompactionWork } from './work.ts';

export type Result = Readonly<
  | { kind: 'accepted'; plan: CompactPlan; parts: readonly Part[]; model: string | null; tokensAfter: number }
  /** The strategy wrote a text, but the view with it is no better. */
  | { kind: 'rejected'; error: ErrorRecord; tokensAfter: number }
  | ({ kind: 'failed' } & Unanswered)
>;

/** Executes the strategy, builds the new view, and judges it by the context meter that asked for the compaction. */
export async function resultOf(work: CompactionWork, strategy: Strategy, planned: CompactPlan): Promise<Result> {
  const draft = await strategy.execute(work, planned);
  if (!draft.ok) {
    const { ok: _, ...unanswered } = draft;
    return { kind: 'failed', ...unanswered };
  }
  const plan = draft.plan ?? planned;
  const { meter, scope, round } = work;
  const { parts, view } = compactedView(plan, { round, body: draft.body, thresholds: meter.thresholds });
  const tokensAfter = meter.measure(view, { ...scope.contextState, anchor: null }).total;
  const refusal = judgeSizes({
    tokensBefore: plan.tokensBefore,
    tokensAfter,
    targetTokens: plan.targetTokens,
    reductionShare: meter.thresholds.compactionReductionShare,
  });
  if (refusal !== null) return { kind: 'rejected', error: rejection(refusal, plan, tokensAfter), tokensAfter };
  return { kind: 'accepted', plan, parts, model: draft.model, tokensAfter };
}

function rejection(refusal: Refusal, plan: CompactPlan, tokensAfter: number): ErrorRecord {
  const why = { not_smaller: 'not smaller', too_little: 'hardly smaller', above_target: 'still too large' }[refusal];
  const sizes = `${tokensAfter} tokens after, ${plan.tokensBefore} before, at most ${plan.targetTokens} wanted`;
  return { code: 'summary_invalid', message: `The compacted view was ${why} (${sizes}).` };
}

/** Writes an accepted result: summary, marks, context state and next work in one transaction. */
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
  const messageId = deps.newId();
  const contextState = afterCompaction(work.meter, scope.contextState, reason, result.tokensAfter);
  const { floorTokens, isFloorLogged } = contextState;
  if (floorTokens !== null && !isFloorLogged) logFloor(work, floorTokens);
  await endCompaction(deps, scope, {
    contextState: { ...contextState, isFloorLogged: isFloorLogged || floorTokens !== null },
    events: [...spent.adapted, ...completedEvents(work, written, { messageId, contextState })],
    marks: plan.marks.map((mark): NewMark => mark),
    sizes: {
      round: work.round,
      tokensBefore: plan.tokensBefore,
      tokensAfter: result.tokensAfter,
      messages: plan.head.length,
    },
    compaction: {
      id,
      state: 'completed',
      attempts: spent.calls,
      usage: spent.usage,
      costUsd: spent.costUsd,
      strategy: strategy.name,
      uptoSeq: plan.uptoSeq,
      tokensAfter: result.tokensAfter,
      summary: { messageId, model: result.model, parts: result.parts },
      viewStartSeq: plan.viewStartSeq,
    },
  });
}

/** Once in a session. */
function logFloor({ deps, scope, meter }: CompactionWork, floorTokens: number): void {
  const { compactAtTokens: thresholdTokens } = meter.thresholds;
  const waitsUntilTokens = compactsAgainAt(meter, { floorTokens });
  const agent = scope.agent.name;
  const sizes = { thresholdTokens, floorTokens, waitsUntilTokens };
  deps.log('warn', { event: 'compaction_threshold_low', ...logFields(scope), agent, ...sizes });
}

function completedEvents(
  { view, round, meter }: CompactionWork,
  { reason, strategy, result }: Parameters<typeof writeResult>[1],
  { messageId: summaryMessageId, contextState }: Readonly<{ messageId: string; contextState: ContextState }>,
): NewEvent[] {
  const waitsUntilTokens = compactsAgainAt(meter, contextState);
  const { plan, tokensAfter, model } = result;
  const { tokensBefore, fromSeq, uptoSeq } = plan;
  const messagesCompacted = plan.head.length;
  return [
    {
      type: 'compaction:complete',
      data: {
        round,
        strategy: strategy.name,
        tokensBefore,
        tokensAfter,
        messagesCompacted,
        fromSeq,
        uptoSeq,
        summaryMessageId: formatId('message', summaryMessageId),
        ...(waitsUntilTokens > 0 && { waitsUntilTokens }),
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
