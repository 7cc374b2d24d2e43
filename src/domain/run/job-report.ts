import type { Branch } from './next-step.ts';
import type { PendingKind } from './run.ts';

/** What a job has done, as its queue keeps it for a while. */
export type JobReport = Readonly<{
  /** The step, or the one that the compaction or prune goes before. */
  step: number;
  /** Billed for it, of input and output. */
  tokens: number;
  ms: number;
  /** What the run does then: `step 2`, `prune before step 2`, `waits for answers`, `completed`. */
  next: string;
}>;

/** What becomes of the run, in words. */
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
