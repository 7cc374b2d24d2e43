import type { Branch } from './branch.ts';
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
  if (branch.kind === 'end') return branch.status;
  if (branch.kind === 'wait') return 'waits for answers';
  const work = NAMES[branch.pendingKind](branch.pendingNo);
  if (branch.kind === 'retry') return `${work} again, in ${branch.delayMs} ms`;
  return branch.kind === 'postpone' ? `${work}, in ${branch.delayMs} ms` : work;
}

const NAMES: Readonly<Record<PendingKind, (step: number) => string>> = {
  step: (step) => `step ${step}`,
  compaction: (step) => `compaction before step ${step}`,
  prune: (step) => `prune before step ${step}`,
};
