import { expect, test } from 'vitest';
import type { Branch } from '../../src/domain/run/branch.ts';
import { describeNext } from '../../src/domain/run/job-report.ts';

const error = { code: 'overloaded', message: 'Too much.' } as const;
const retrying = { runId: 'run_1', step: 2, attempt: 1, error };

test.each<[string, Branch]>([
  ['step 2', { kind: 'continue', pendingKind: 'step', pendingNo: 2, events: [] }],
  ['step 2 again, in 500 ms', { kind: 'retry', pendingKind: 'step', pendingNo: 2, delayMs: 500, retrying, events: [] }],
  ['compaction before step 3', { kind: 'continue', pendingKind: 'compaction', pendingNo: 3, events: [] }],
  [
    'prune before step 3, in 9 ms',
    { kind: 'postpone', pendingKind: 'prune', pendingNo: 3, delayMs: 9, retrying, events: [] },
  ],
  ['waits for answers', { kind: 'wait', waitMs: null, calls: [], events: [] }],
  ['incomplete', { kind: 'end', status: 'incomplete', reason: 'max_steps', events: [] }],
])('what comes next is told as "%s"', (words, branch) => {
  expect(describeNext(branch)).toBe(words);
});
