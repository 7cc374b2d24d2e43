import { addCosts } from '../usage.ts';
import type { IncompleteReason } from './run.ts';

/** The limits of a run, and its use before the current job. Null limit: none. */
export type Budget = Readonly<{
  maxTokens: number | null;
  maxCostUsd: number | null;
  usedTokens: number;
  /** Null: unknown, because the run asked a model without known prices. */
  usedCostUsd: number | null;
}>;

/** For a run that has only its final answer left, which no earlier use limits. */
export const NO_BUDGET: Budget = { maxTokens: null, maxCostUsd: null, usedTokens: 0, usedCostUsd: 0 };

/**
 * The limit that a run has reached, or null. It is checked between steps, so the step that crosses it is kept; an
 * unknown cost counts as beyond any cost limit.
 * @param spent by the current job
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
