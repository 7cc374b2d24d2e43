import { expect, test } from 'vitest';
import { costOfRaw, formatCost, missedBars } from '../../../eval/metrics/bars.ts';
import type { ContextMetrics } from '../../../eval/metrics/context-metrics.ts';

const GOOD: ContextMetrics = {
  calls: 10,
  summaryCalls: 2,
  rejectedByWindow: 0,
  compactions: 2,
  prunes: 1,
  prunable: 500,
  compactionFailures: 1,
  utilizationBeforeCompaction: 0.8,
  prefixHit: 0.9,
  breaks: 4,
  promptTokens: 1000,
  costUnits: { cached: 3, uncached: 9, raw: 2 },
  rawPrompt: 950,
  estimator: { p50: null, p95: null, max: null, coldStartWorst: null },
  firstAndLastUserVerbatim: true,
  editedFileRecall: 1,
  needles: { id: 1, error: 1 },
  errorResultsKept: 0.5,
  orphans: 0,
  invalidViews: 0,
  exhausted: 0,
  usable: 1000,
  content: 800,
  largestMessage: 100,
};

test('a replay that kept its context well misses nothing', () => {
  expect(missedBars(GOOD)).toEqual([]);
  expect(
    missedBars({ ...GOOD, compactions: 0, breaks: 2, prunable: 99, utilizationBeforeCompaction: null, needles: {} }),
  ).toEqual([]);
});

test('the cost of a replay is told beside its goal', () => {
  expect(formatCost(costOfRaw({ ...GOOD, rawPrompt: 949 }))).toBe('cost 1.5 of raw (fits its window: at most 1.02)');
  expect(formatCost(costOfRaw(GOOD))).toBe('cost 1.5 of raw (more than its window holds)');
});

test('where a single message leaves no room, the context is exhausted once and nothing else is asked for', () => {
  const crowded = {
    ...GOOD,
    largestMessage: 900,
    exhausted: 1,
    needles: { id: 0 },
    compactions: 9,
    editedFileRecall: 0,
  };
  expect(missedBars(crowded)).toEqual([]);
  expect(missedBars({ ...crowded, exhausted: 2, rejectedByWindow: 1 })).toHaveLength(2);
  expect(missedBars({ ...crowded, exhausted: 0 })).toHaveLength(3);
});

test.each<[Partial<ContextMetrics>, string]>([
  [{ rejectedByWindow: 1 }, 'over the window'],
  [{ orphans: 1 }, 'without their other half'],
  [{ invalidViews: 1 }, 'invalid'],
  [{ exhausted: 1 }, 'exhausted'],
  [{ firstAndLastUserVerbatim: false }, 'not sent as given'],
  [{ editedFileRecall: 0.9 }, 'only 0.9 recalled'],
  [{ needles: { id: 0.5, error: 1 } }, 'needles lost: id 0.5'],
  [{ prunes: 0, breaks: 2 }, 'no prune, where 500 tokens'],
  [{ compactions: 3 }, '3 compactions, where 2 are enough'],
  [{ utilizationBeforeCompaction: 0.69 }, 'compacted at 0.69'],
  [{ breaks: 5 }, '5 breaks'],
  [{ rawPrompt: 949 }, 'cost 1.5 of raw (fits its window: at most 1.02)'],
])('%j is told', (change, text) => {
  expect(missedBars({ ...GOOD, ...change })).toEqual([expect.stringContaining(text)]);
});
