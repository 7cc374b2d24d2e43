import { formatId } from '../ids.ts';
import type { NextPlan } from './branch.ts';
import { CANCELLED, completedBranch, continueWith, type Postponement, postponedBranch } from './next-step.ts';
import type { PendingKind, RunKind } from './run.ts';

export type MaintenanceOutcome = Readonly<{
  runId: string;
  runKind: RunKind;
  /** The step after the compaction or prune. */
  stepNo: number;
  /** The next work of a task run: the step, or more that the view needs before it. */
  goesOnWith: PendingKind;
  /** Set if the summarizer's provider may not be asked now: the same compaction follows later. */
  postponed?: Postponement;
}>;

/**
 * Plans the work after a compaction or prune. A task run goes on with the same step, which drains queued messages; a
 * maintenance run ends.
 */
export function planAfterMaintenance(outcome: MaintenanceOutcome): NextPlan {
  const runId = formatId('run', outcome.runId);
  const next =
    outcome.postponed !== undefined
      ? postponedBranch(runId, 'compaction', outcome.stepNo, outcome.postponed)
      : outcome.runKind === 'task'
        ? continueWith(outcome.goesOnWith, outcome.stepNo)
        : completedBranch(runId, { finishReason: 'stop' });
  return { ifCancelled: CANCELLED, ifMessagesWait: next, otherwise: next };
}
