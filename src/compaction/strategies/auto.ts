import { planCompaction } from '../../domain/context/compaction/compaction-plan.ts';
import { validateSummary } from '../../domain/context/compaction/summary-validation.ts';
import type { Strategy } from '../strategy.ts';
import { summarizeHead } from '../summarize.ts';

/** The default: a structured summary of the old messages, if that pays or the window is full. */
export const auto: Strategy = {
  name: 'auto',
  plan: (base) => planCompaction({ ...base, bodyTokens: () => base.thresholds.summaryTokens }),
  execute: (work, plan) => summarizeHead(work, plan, auto.validate),
  validate: (answer, plan, replacedTokens) =>
    validateSummary(answer, { replacedTokens, targetTokens: plan.bodyTokens }),
};
