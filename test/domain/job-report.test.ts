import { expect, test } from 'vitest';
import { describeNext } from '../../src/domain/run/job-report.ts';
import type { Branch } from '../../src/domain/run/next-step.ts';

test.each<[string, Branch]>([
  ['step 2', { pendingKind: 'step', pendingNo: 2, events: [] }],
  ['step 2 again, in 500 ms', { pendingKind: 'step', pendingNo: 2, retryDelayMs: 500, events: [] }],
  ['compaction before step 3', { pendingKind: 'compaction', pendingNo: 3, events: [] }],
  ['prune before step 3, in 9 ms', { pendingKind: 'prune', pendingNo: 3, postponeMs: 9, events: [] }],
  ['waits for answers', { waitMs: null, calls: [], events: [] }],
  ['incomplete', { status: 'incomplete', reason: 'max_steps', events: [] }],
])('what comes next is told as "%s"', (words, branch) => {
  expect(describeNext(branch)).toBe(words);
});
