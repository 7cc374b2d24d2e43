import { describe, expect, it } from 'vitest';
import { compactionDueAt, type Outlook, outlookOf, savedByPrune } from '../../../src/domain/context/expected-cost.ts';
import { thresholdsOf } from '../../../src/domain/context/limits/thresholds.ts';
import { assistantOf, textOf, userOf } from './measure-view.ts';

/** 48k of 64k usable: a compaction may pay from 38.4k on, and is due at any cost from 47,040 on. */
const thresholds = thresholdsOf(48_000, 64_000);
const prices = { read: 0.1, write: 1.25, output: 5 };
const session = (rest: Partial<Outlook> = {}): Outlook => ({
  steps: 40,
  tokensPerStep: 900,
  usedTokens: 38_400,
  overheadTokens: 2_000,
  prices,
  thresholds,
  ...rest,
});

describe('a compaction', () => {
  it('is due early in a long session, and where it has to be in a short one', () => {
    expect(compactionDueAt(session({ steps: 30 }))).toBe(thresholds.compactByTokens);
    expect(compactionDueAt(session({ steps: 300 }))).toBe(thresholds.compactAtTokens);
  });

  it('is due early where a view that is sent again costs its whole price', () => {
    expect(compactionDueAt(session({ steps: 12, prices: { read: 1, write: 1, output: 5 } }))).toBe(
      thresholds.compactAtTokens,
    );
  });

  it('is due where the agent says, whatever it costs', () => {
    const flat = thresholdsOf(48_000, 64_000, { compactAt: 0.7 });
    expect(compactionDueAt(session({ steps: 1, thresholds: flat }))).toBe(33_600);
  });
});

describe('a prune', () => {
  it('costs a rewrite of all messages, and saves what the steps to come would read again', () => {
    // Far from a compaction: 10 steps to come save 9k tokens each, against 27k tokens to write again.
    const roomy = session({ usedTokens: 38_000, tokensPerStep: 0 });
    expect(savedByPrune(roomy, 9_000)).toBeCloseTo(0.1 * 9_000 * 10 - 1.15 * 27_000);
  });

  it('is worth more the nearer the compaction is that it puts off', () => {
    const savedAt = (usedTokens: number, tokensPerStep: number): number =>
      savedByPrune(session({ steps: 16, usedTokens, tokensPerStep }), 9_000) + 1.15 * (usedTokens - 2_000 - 9_000);
    expect(savedAt(46_000, 900)).toBeGreaterThan(savedAt(30_000, 900) + 1_000);
    expect(savedAt(46_000, 900)).toBeGreaterThan(savedAt(46_000, 0) + 1_000);
  });

  it('gains nothing by putting off a compaction that pays by itself', () => {
    const long = session({ steps: 400, usedTokens: 30_000 });
    expect(savedByPrune(long, 9_000)).toBeCloseTo(savedByPrune({ ...long, tokensPerStep: 0 }, 9_000));
  });
});

it('steps count that a summary stands for', () => {
  const view = [userOf(91, textOf('S')), assistantOf(92, textOf('a')), assistantOf(93, textOf('b')), userOf(94)];
  const known = { usedTokens: 10_000, overheadTokens: 2_000, prices, thresholds };
  expect(outlookOf(view, known)).toMatchObject({ steps: 47, tokensPerStep: 4_000 });
});
