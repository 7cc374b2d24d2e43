import { planCompaction } from '../../domain/context/compaction/compaction-plan.ts';
import { MIN_REMOVAL_TOKENS, removalBody } from '../../domain/context/compaction/middle-removal.ts';
import { readSummary } from '../../domain/context/compaction/summary-document.ts';
import type { Strategy } from '../strategy.ts';
import { countReal } from '../work.ts';

/** Replaces the middle by a notice. It needs no model, so it is the last resort of the strategies that do. */
export const middleRemoval: Strategy = {
  name: 'middle-removal',
  plan: (base) => {
    // The notice follows the text of the previous summary.
    const kept = base.countText(readSummary(base.view)?.body ?? '');
    return planCompaction({
      ...base,
      bodyTokens: () => Math.max(base.thresholds.summaryTokens, kept + MIN_REMOVAL_TOKENS),
    });
  },
  execute: async (work, plan) => {
    const body = removalBody(plan.head, plan.previousSummary?.body ?? '', plan.bodyTokens, countReal(work));
    return { ok: true, body, model: null };
  },
  validate: () => null,
};
