import { addCosts } from '../usage.ts';
import type { IncompleteReason } from './run.ts';

/** What a run may use, and what it had used before the job that is being worked on. Null: no limit. */
export type Budget = Readonly<{
  maxTokens: number | null;
  maxCostUsd: number | null;
  usedTokens: number;
  /** Null: it has asked a model of which nobody knows the price. */
  usedCostUsd: number | null;
}>;

/** Of a run whose final answer is all that is left: that is not measured by what the run had used before. */
export const NO_BUDGET: Budget = { maxTokens: null, maxCostUsd: null, usedTokens: 0, usedCostUsd: 0 };

/**
 * Which limit a run has reached, or null. A budget is checked between steps: the step that crosses it is paid for
 * anyway, and what it did is kept. A cost that is not known may be any: with a limit of cost it counts as beyond it.
 * @param spent by the job that is being worked on
 */
export function limitReached(
  budget: Budget,
  spent: Readonly<{ tokens: number; costUsd: number | null }>,
  isPastDeadline: boolean,
): Extract<IncompleteReason, 'budget' | 'deadline'> | null {
  if (isPastDeadline) return 'deadline';
  const { maxTokens, maxCostUsd } = budget;
  if (maxTokens !== null && budget.usedTokens + spent.tokens >= maxTokens) return 'budget';
  const costUsd = addCosts(budget.usedCostUsd, spent.costUsd);
  if (maxCostUsd !== null && (costUsd === null || costUsd >= maxCostUsd)) return 'budget';
  return null;
}
