import { describe, expect, it } from 'vitest';
import { isAt, type OverflowInput, planOverflow, withPending } from '../../../src/domain/context/overflow-plan.ts';
import type { OverflowNumbers } from '../../../src/domain/model/overflow-limit.ts';
import { smallMeter, stateOf } from './small-meter.ts';

const place = { runId: 'run-1', stepNo: 4 };
const numbers: OverflowNumbers = {
  limitTokens: 16_384,
  scope: 'window',
  requestedTokens: 18_000,
  inputTokens: null,
  outputTokens: null,
  outputRoomTokens: null,
  isLasting: true,
};
const plan = (input: Partial<OverflowInput> = {}) =>
  planOverflow({
    meter: smallMeter(),
    state: stateOf(),
    place,
    remedy: 'compact',
    numbers: null,
    maxOutputTokens: 4_000,
    hasMedia: false,
    message: 'prompt is too long',
    ...input,
  });
const overflowed = (count: number) => ({ ...place, count });

describe('an overflow that a shorter history helps', () => {
  it('is answered by a compaction and the same step again, whatever the thresholds say', () => {
    expect(plan()).toMatchObject({
      kind: 'retry',
      after: 'compaction',
      contextState: { overflow: overflowed(1), pending: { reason: 'overflow', force: true, stripMedia: false } },
    });
  });

  it('is survived twice by a step; the third one ends the run', () => {
    expect(plan({ state: stateOf({ overflow: overflowed(1) }) })).toMatchObject({ kind: 'retry' });
    const third = plan({ state: stateOf({ overflow: overflowed(2) }), numbers });
    expect(third).toEqual({
      kind: 'exhausted',
      error: {
        code: 'context_exhausted',
        message: 'prompt is too long (requested 18000, limit 16384 tokens); 2 attempts at it did not help.',
      },
    });
  });

  it('is counted anew in another step and in another run', () => {
    for (const other of [
      { runId: 'run-1', stepNo: 3 },
      { runId: 'run-0', stepNo: 4 },
    ]) {
      const planned = plan({ state: stateOf({ overflow: { ...other, count: 2 } }) });
      expect(planned).toMatchObject({ kind: 'retry', contextState: { overflow: overflowed(1) } });
    }
  });

  it('ends the run after three compactions in a row that did not help, by whatever route they came', () => {
    expect(plan({ state: stateOf({ compactionsSinceStep: 2 }) })).toMatchObject({ kind: 'retry' });
    const planned = plan({ state: stateOf({ compactionsSinceStep: 3 }) });
    if (planned.kind !== 'exhausted') throw new Error(planned.kind);
    expect(planned.error.message).toContain('3 compactions in a row did not help');
  });

  it('ends the run at once with the strategy manual, and says the window where the provider named no numbers', () => {
    const planned = plan({ meter: smallMeter({ compaction: { strategy: 'manual' } }) });
    expect(planned).toMatchObject({
      kind: 'exhausted',
      error: { message: 'prompt is too long (window 20000 tokens); nothing is compacted unasked (strategy: manual).' },
    });
  });
});

describe('an overflow that a shorter answer helps', () => {
  it('is taken again with what the provider has room for, and nothing is compacted', () => {
    const planned = plan({ remedy: 'shrink_output', numbers: { ...numbers, outputRoomTokens: 1_500 } });
    expect(planned).toMatchObject({
      kind: 'retry',
      after: 'step',
      contextState: { outputCap: { ...place, tokens: 1_500 }, pending: null },
    });
  });

  it('is taken again with half of the answer where the provider does not say', () => {
    expect(plan({ remedy: 'shrink_output' })).toMatchObject({
      contextState: { outputCap: { ...place, tokens: 2_000 } },
    });
  });

  it('is compacted where a shorter answer was tried in this step already', () => {
    const state = stateOf({ outputCap: { ...place, tokens: 2_000 }, overflow: overflowed(1) });
    expect(plan({ remedy: 'shrink_output', state })).toMatchObject({ after: 'compaction' });
    const elsewhere = stateOf({ outputCap: { runId: 'run-0', stepNo: 4, tokens: 2_000 } });
    expect(plan({ remedy: 'shrink_output', state: elsewhere })).toMatchObject({ after: 'step' });
  });

  it('is compacted where the room left is no room', () => {
    const left = { ...numbers, outputRoomTokens: 255 };
    expect(plan({ remedy: 'shrink_output', numbers: left })).toMatchObject({ after: 'compaction' });
    expect(plan({ remedy: 'shrink_output', numbers: { ...left, outputRoomTokens: 256 } })).toMatchObject({
      after: 'step',
    });
  });
});

describe('an overflow of bytes', () => {
  it('takes images and files out of the view, and forgets what was billed for it', () => {
    const anchor = { usage: { ...usage, inputTokens: 9_000 }, messageSeq: 3 };
    expect(plan({ remedy: 'strip_media', hasMedia: true, state: stateOf({ anchor }) })).toMatchObject({
      kind: 'retry',
      after: 'prune',
      contextState: { anchor: null, pending: { reason: 'overflow', force: true, stripMedia: true } },
    });
  });

  it('is an error like any other where there are none', () => {
    expect(plan({ remedy: 'strip_media' })).toEqual({ kind: 'helpless' });
  });

  it('is bounded as every overflow is', () => {
    const state = stateOf({ overflow: overflowed(2) });
    expect(plan({ remedy: 'strip_media', hasMedia: true, state })).toMatchObject({ kind: 'exhausted' });
  });
});

const usage = {
  inputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  totalTokens: 0,
};

describe('what is noted for a step', () => {
  it('counts for this very step only', () => {
    expect(isAt({ ...place, count: 1 }, place)).toBe(true);
    expect(isAt({ ...place, stepNo: 5 }, place)).toBe(false);
    expect(isAt({ ...place, runId: 'run-2' }, place)).toBe(false);
    expect(isAt(null, place)).toBe(false);
  });

  it('is a compaction that must be made, unless somebody says that it may wait', () => {
    expect(withPending(stateOf(), 'stream').pending).toEqual({ reason: 'stream', force: true, stripMedia: false });
    expect(withPending(stateOf(), 'threshold', false).pending?.force).toBe(false);
  });
});
