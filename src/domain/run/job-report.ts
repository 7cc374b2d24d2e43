import type { Branch } from './next-step.ts';
import type { PendingKind } from './run.ts';

/** The result of a job, which its queue keeps for a while. */
export type JobReport = Readonly<{
  /** The step, or the one after the compaction or prune. */
  step: number;
  /** Billed, of input and output. */
  tokens: number;
  ms: number;
  /** The next work or state of the run: `step 2`, `prune before step 2`, `waits for answers`, `completed`. */
  next: string;
}>;

export function describeNext(branch: Branch): string {
  if ('status' in branch) return branch.status;
  if ('waitMs' in branch) return 'waits for answers';
  const { pendingKind, pendingNo, retryDelayMs, postponeMs } = branch;
  const work = NAMES[pendingKind](pendingNo);
  if (retryDelayMs !== undefined) return `${work} again, in ${retryDelayMs} ms`;
  return postponeMs === undefined ? work : `${work}, in ${postponeMs} ms`;
}

const NAMES: Readonly<Record<PendingKind, (step: number) => string>> = {
  step: (step) => `step ${step}`,
  compaction: (step) => `compaction before step ${step}`,
  prune: (step) => `prune before step ${step}`,
};
