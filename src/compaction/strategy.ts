import type { FailedCall } from '../domain/context/compaction/compaction-outcome.ts';
import type { CompactionPlan, CompactPlan, PlanBase } from '../domain/context/compaction/compaction-plan.ts';
import type { SummaryAnswer, SummaryFault } from '../domain/context/compaction/summary-validation.ts';
import type { StrategyName } from '../domain/context/limits/policy.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import type { CompactionWork } from './work.ts';

/** Why there is no text, and the call to the model that it came of. */
export type Unanswered = Readonly<{ error: ErrorRecord; failedCall?: FailedCall }>;

/** The text that stands for the head of a plan, or why there is none. */
export type Draft = Readonly<
  | {
      ok: true;
      body: string;
      /** `provider/model` that wrote it; null where no model did. */
      model: string | null;
      /** Set where the text stands for another head than was planned. */
      plan?: CompactPlan;
    }
  | ({ ok: false } & Unanswered)
>;

/** No text, for what the model was last asked in vain. */
export function noDraft({ error, failedCall }: Unanswered): Draft {
  return { ok: false, error, ...(failedCall !== undefined && { failedCall }) };
}

/** One way to make a view smaller. What starts it is decided before (`isStartedBy`). */
export type Strategy = Readonly<{
  name: StrategyName;
  plan: (base: PlanBase) => CompactionPlan;
  /** Writes the text that stands for the head. Never throws for what a provider does. */
  execute: (work: CompactionWork, plan: CompactPlan) => Promise<Draft>;
  /** What is wrong with a model's answer, or null. */
  validate: (answer: SummaryAnswer, plan: CompactPlan, replacedTokens: number) => SummaryFault | null;
}>;
