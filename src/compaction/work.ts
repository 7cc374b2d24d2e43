import type { AgentCatalogue } from '../agents/agent.ts';
import type { JobScope } from '../claims/job-scope.ts';
import type { PlanBase } from '../domain/context/compaction/compaction-plan.ts';
import { countRealTokens } from '../domain/context/compaction/plan-input.ts';
import type { ContextMeter } from '../domain/context/meter/context-meter.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import { addCosts, addUsage, NO_USAGE, type Usage } from '../domain/usage.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import type { StepDeps } from '../step/deps.ts';
import type { Tool } from '../tools/tool.ts';
import type { LoadCompactor } from './load-compactor.ts';

export type CompactionDeps = StepDeps &
  Readonly<{
    /** Resolves the summarizing agent. */
    agents: AgentCatalogue;
    loadCompactor: LoadCompactor;
  }>;

/** Model calls of one compaction, over all its attempts. */
export const MAX_MODEL_CALLS = 6;

/**
 * Model calls of a compaction so far. `costUsd` is null once the price of one is unknown. `adapted`: the events of
 * requests that were refused for their form and made again.
 */
export type Spent = { calls: number; usage: Usage; costUsd: number | null; adapted: readonly NewEvent[] };

export const nothingSpent = (): Spent => ({ calls: 0, usage: NO_USAGE, costUsd: 0, adapted: [] });

/** Adds tokens and US dollars in place. The caller counts the call. */
export function spend(spent: Spent, usage: Usage, costUsd: number | null): void {
  spent.usage = addUsage(spent.usage, usage);
  spent.costUsd = addCosts(spent.costUsd, costUsd);
}

export type CompactionWork = Readonly<{
  deps: CompactionDeps;
  scope: JobScope;
  view: readonly ViewMessage[];
  /** The session's own model. */
  resolved: ResolvedModel;
  tools: readonly Tool[];
  meter: ContextMeter;
  base: PlanBase;
  round: number;
  /** Earlier rounds of this compaction that failed for a passing cause. */
  failures: number;
  spent: Spent;
  /** Aborted when the job is stopped or its time is up. */
  signal: AbortSignal;
}>;

/** Counts the real tokens of a text for a model, the session's own by default. */
export function countReal({ meter: own, scope }: CompactionWork, meter = own): (text: string) => number {
  return countRealTokens(meter, scope.contextState);
}
