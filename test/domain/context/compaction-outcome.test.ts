import { describe, expect, it } from 'vitest';
import { compactedView } from '../../../src/domain/context/compaction/compacted-view.ts';
import { afterCompaction, afterFailedCompaction } from '../../../src/domain/context/compaction/compaction-outcome.ts';
import { readSummary } from '../../../src/domain/context/compaction/summary-document.ts';
import type { ViewMessage } from '../../../src/domain/transcript/message.ts';
import { plan, thresholdsFor } from './compaction-view.ts';
import { assistantOf, callOf, textOf, usageOf, userOf } from './measure-view.ts';
import { smallMeter, stateOf } from './small-meter.ts';

const meter = smallMeter();
const anchor = { usage: usageOf({ inputTokens: 13_000 }), messageSeq: 2 };
const pending = { reason: 'threshold', force: false, stripMedia: false } as const;

describe('the state after a compaction', () => {
  it('has no anchor: what was billed before says nothing of the new view', () => {
    const after = afterCompaction(meter, stateOf({ anchor, pending }), 'threshold', 5_000);
    expect(after).toMatchObject({ anchor: null, pending: null, compactionsSinceStep: 1 });
  });

  it('counts for the breaker by whatever route it came, unless somebody asked for it', () => {
    const countOf = (reason: Parameters<typeof afterCompaction>[2]) =>
      afterCompaction(meter, stateOf({ compactionsSinceStep: 1 }), reason, 5_000).compactionsSinceStep;
    expect((['threshold', 'tool_results', 'stream', 'overflow'] as const).map(countOf)).toEqual([2, 2, 2, 2]);
    expect(countOf('manual')).toBe(1);
  });

  it('forgets that one failed before', () => {
    const failed = stateOf({ failedAtTokens: 13_000, failedCompactions: 3 });
    expect(afterCompaction(meter, failed, 'threshold', 5_000)).toMatchObject({
      failedAtTokens: null,
      failedCompactions: 0,
    });
  });

  it('remembers a view that leaves less than a tenth below the trigger, unless it met its target', () => {
    const floorOf = (tokens: number, thresholdPercent = 80) =>
      afterCompaction(smallMeter({ compaction: { options: { thresholdPercent } } }), stateOf(), 'threshold', tokens)
        .floorTokens;
    expect([11_200, 11_201].map((tokens) => floorOf(tokens))).toEqual([null, 11_201]);
    // 30 % are 4.8k, the target is 3.84k.
    expect([3_840, 3_841].map((tokens) => floorOf(tokens, 30))).toEqual([null, 3_841]);
  });
});

describe('the state after a compaction that brought nothing', () => {
  it('keeps its anchor: the view is as it was', () => {
    const after = afterFailedCompaction(stateOf({ anchor, pending }), 'threshold', 13_000);
    expect(after).toMatchObject({ anchor, pending: null, compactionsSinceStep: 1, failedAtTokens: 13_000 });
    expect([after, afterFailedCompaction(after, 'overflow', 14_000)].map((state) => state.failedCompactions)).toEqual([
      1, 2,
    ]);
  });

  it('says nothing of the thresholds where somebody asked for it', () => {
    const before = stateOf({ anchor, pending: { ...pending, reason: 'manual' } });
    expect(afterFailedCompaction(before, 'manual', 13_000)).toEqual({ ...before, pending: null });
  });
});

describe('the view after a compaction', () => {
  const thresholds = thresholdsFor(16_000);
  const steps = (from: number, count: number): ViewMessage[] =>
    Array.from({ length: count }, (_, at) =>
      assistantOf(from + at, callOf({ path: `f${at}.ts` }, 'word '.repeat(360))),
    );
  const viewOf = (view: readonly ViewMessage[], round: number, body: string): readonly ViewMessage[] => {
    const planned = plan(view, thresholds);
    if (planned.kind !== 'compact') throw new Error(planned.kind);
    return compactedView(planned, { round, body, thresholds }).view;
  };
  const first = viewOf([userOf(1, textOf('The task.')), ...steps(2, 20)], 1, 'What was done.');

  it('begins with the summary, and what it stands for is gone', () => {
    expect(first[0]?.role).toBe('user');
    expect(readSummary(first)).toMatchObject({
      body: 'What was done.',
      firstUser: { at: 'after_summary', seq: 1 },
      userMessages: { count: 1, newestSeqs: [1], fileCount: 0, newestFiles: [] },
      fromSeq: 1,
    });
    expect(first.slice(1).map(({ seq }) => seq)).toEqual([17, 18, 19, 20, 21]);
  });

  it('has one summary after many rounds, of the whole chain', () => {
    const numbered = first.with(0, { ...(first[0] as ViewMessage), seq: 22 });
    const second = viewOf([...numbered, ...steps(23, 15)], 2, 'What was done since, too.');
    const texts = second.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === 'compaction' ? [part.text] : [])),
    );
    expect(texts).toHaveLength(1);
    expect(texts[0]).toMatch(/^Summary no\. 2, of messages 1 to \d+\./);
    expect(texts[0]).not.toContain('What was done.');
  });
});
