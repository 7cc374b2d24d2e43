import type { FailedCall } from '../domain/context/compaction/compaction-outcome.ts';
import type { CompactionPlan, CompactPlan, PlanBase } from '../domain/context/compaction/compaction-plan.ts';
import type { SummaryAnswer, SummaryFault } from '../domain/context/compaction/summary-validation.ts';
import type { StrategyName } from '../domain/context/limits/policy.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import type { CompactionWork } from './work.ts';

/** Why there is no text, and the failed model call behind it, if any. */
export type Unanswered = Readonly<{ error: ErrorRecord; failedCall?: FailedCall }>;

/** The text that replaces the head of a plan, or why there is none. */
export type Draft = Readonly<
  | {
      ok: true;
      body: string;
      /** `provider/model` of the writer. Null: no model wrote it. */
      model: string | null;
      /** Set if the text replaces another head than the planned one. */
      plan?: CompactPlan;
    }
  | ({ ok: false } & Unanswered)
>;

export function noDraft({ error, failedCall }: Unanswered): Draft {
  return { ok: false, error, ...(failedCall !== undefined && { failedCall }) };
}

/** One way to make a view smaller. `isStartedBy` decides when it starts. */
export type Strategy = Readonly<{
  name: StrategyName;
  plan: (base: PlanBase) => CompactionPlan;
  /** Writes the text that replaces the head. Never throws for a provider's error. */
  execute: (work: CompactionWork, plan: CompactPlan) => Promise<Draft>;
  /** The fault of a model's answer. Null: none. */
  validate: (answer: SummaryAnswer, plan: CompactPlan, replacedTokens: number) => SummaryFault | null;
}>;
