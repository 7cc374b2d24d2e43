import { formatId } from '../ids.ts';
import { type Branch, cancelledBranch, type NextPlan, type Postponement, postponedBranch } from './next-step.ts';
import type { PendingKind, RunKind } from './run.ts';

export type MaintenanceOutcome = Readonly<{
  runId: string;
  runKind: RunKind;
  /** The step that the compaction or prune went before: the run goes on with it. */
  stepNo: number;
  /** What a task run goes on with: the step, or what the view needs before it. */
  goesOnWith: PendingKind;
  /** Set where the summarizer's provider may not be asked now: the same compaction later. */
  postponed?: Postponement;
}>;

/**
 * Decides what follows a compaction or a prune. A task run goes on with the same step; messages that arrived meanwhile
 * are drained by it. A maintenance run was made for this one job: it ends, and messages that came meanwhile get a run.
 * After a cancel waiting messages stay parked, as after every one.
 */
export function planAfterMaintenance(outcome: MaintenanceOutcome): NextPlan {
  const runId = formatId('run', outcome.runId);
  const ifCancelled = cancelledBranch(runId);
  const goOn: Branch = { pendingKind: outcome.goesOnWith, pendingNo: outcome.stepNo, events: [] };
  const end: Branch = {
    status: 'completed',
    takesUpWaiting: true,
    events: [{ type: 'run:completed', data: { runId, finishReason: 'stop' } }],
  };
  const next =
    outcome.postponed !== undefined
      ? postponedBranch(runId, 'compaction', outcome.stepNo, outcome.postponed)
      : outcome.runKind === 'task'
        ? goOn
        : end;
  return { ifCancelled, ifMessagesWait: next, otherwise: next };
}
