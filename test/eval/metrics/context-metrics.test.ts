import { expect, test } from 'vitest';
import { contextMetrics, type ReplayTrace } from '../../../eval/metrics/context-metrics.ts';
import { estimatorErrors } from '../../../eval/metrics/estimator.ts';
import { quantile } from '../../../eval/metrics/statistics.ts';
import { recordingOf } from '../replay-fixture.ts';
import { callOf, refused, requestOf, said } from './journal-fixture.ts';

const event = (type: string, data: Record<string, unknown> = {}) => ({ type, data });
const edit = { id: 'a', name: 'edit', input: { path: 'src/a.ts' }, output: 'ok' };
const TRACE: ReplayTrace = {
  recording: recordingOf([
    { type: 'user', text: 'Go.' },
    { type: 'step', text: '', toolCalls: [edit], finishReason: 'tool-calls' },
    { type: 'step', text: 'Done.', toolCalls: [], finishReason: 'stop' },
  ]),
  needles: [{ class: 'id', text: 'needle' }],
  calls: [
    callOf({ promptTokens: 100 }),
    refused({ refusal: 'window' }),
    refused({ summary: true, refusal: 'fault' }),
    callOf({ summary: true, promptTokens: 200, cachedTokens: 100, request: requestOf(said('user', 'a needle')) }),
    refused({ refusal: 'invalid', violationClasses: ['pairing', 'empty'] }),
    refused({ refusal: 'invalid', violationClasses: ['order'] }),
    callOf({ promptTokens: 100, cachedTokens: 50, extendsPrefix: false }),
  ],
  events: [
    event('compaction:start', { tokensBefore: 800 }),
    event('compaction:failed'),
    event('compaction:start', { tokensBefore: 900 }),
    event('compaction:complete'),
    event('compaction:start', { tokensBefore: 700 }),
    event('compaction:complete'),
    event('prune:complete', { prunedCount: 0 }),
    event('prune:complete', { prunedCount: 3 }),
    event('run:failed', { error: { code: 'transport' } }),
    event('run:failed', { error: { code: 'context_exhausted' } }),
    event('run:incomplete', { reason: 'context_exhausted' }),
    event('run:incomplete', { reason: 'max_steps' }),
  ],
  usableTokens: 1000,
  storedOutputs: [],
  listedFiles: [],
  measuredCalls: [],
  factorOf: () => 1,
  asksOnceMore: false,
};

test('the metrics count what the provider logged and what the events tell', () => {
  expect(contextMetrics(TRACE)).toMatchObject({
    calls: 2,
    summaryCalls: 2,
    rejectedByWindow: 1,
    compactions: 2,
    compactionFailures: 1,
    prunes: 1,
    utilizationBeforeCompaction: 0.8,
    prefixHit: 0.375,
    breaks: 1,
    promptTokens: 400,
    firstAndLastUserVerbatim: true,
    editedFileRecall: 0,
    needles: { id: 1 },
    orphans: 1,
    invalidViews: 2,
    exhausted: 2,
    usable: 1000,
  });
});

test('a file counts as recalled that only the list names', () => {
  expect(contextMetrics({ ...TRACE, listedFiles: ['src/a.ts'] }).editedFileRecall).toBe(1);
});

test('a replay that came to nothing has metrics all the same', () => {
  expect(contextMetrics({ ...TRACE, calls: [], events: [] })).toMatchObject({
    calls: 0,
    prefixHit: 1,
    utilizationBeforeCompaction: null,
    firstAndLastUserVerbatim: true,
    costUnits: { cached: 0, uncached: 0 },
  });
});

test('anchored errors count without their sign, cold ones as how far the worst fell short', () => {
  const anchored = [99, 100, 102, 100].map((measured) => ({ measured, real: 100, isAnchored: true }));
  const cold = [95, 130].map((measured) => ({ measured, real: 100, isAnchored: false }));
  expect(estimatorErrors([...anchored, ...cold])).toEqual({ p50: 0, p95: 0.02, max: 0.02, coldStartWorst: -0.05 });
  expect(estimatorErrors([])).toEqual({ p50: null, p95: null, max: null, coldStartWorst: null });
});

test('a quantile is one of the values', () => {
  expect([0, 0.5, 0.75, 1].map((share) => quantile([4, 1, 3, 2], share))).toEqual([1, 2, 3, 4]);
  expect(quantile([], 0.5)).toBeNull();
});
