import { describe, expect, it, test } from 'vitest';
import { UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import { contextPolicySchema } from '../../../src/domain/context/limits/policy.ts';
import { createContextMeter, thresholdPercentsOf } from '../../../src/domain/context/meter/context-meter.ts';
import { assistantOf, MODEL, textOf, usageOf, userOf } from './measure-view.ts';
import { measured, smallMeter, stateOf } from './small-meter.ts';

const tokens = (amount: number): string => 'x'.repeat(amount * 4);
const view = [userOf(1, textOf('Go on.')), assistantOf(2, textOf('Done.')), userOf(3, textOf(tokens(1_000)))];
const anchor = { usage: usageOf({ inputTokens: 5_000, outputTokens: 100 }), messageSeq: 2 };
const calibration = { prior: 1, margin: 1.1, realTokens: 6_000, estimatedTokens: 3_000 };

describe('a meter', () => {
  it('measures from what the provider billed last', () => {
    expect(smallMeter().measure(view, stateOf({ anchor }))).toMatchObject({ total: 6_104, isAnchored: true });
  });

  it('takes no anchor and no ratio of another model', () => {
    const state = stateOf({ anchor, calibration, model: 'openai/gpt-5.4' });
    const measurement = smallMeter().measure(view, state);
    expect(measurement.isAnchored).toBe(false);
    expect(measurement.total).toBeLessThan(1_100);
    expect(smallMeter().ratioOf(stateOf({ calibration }))).toBe(2);
    expect(smallMeter().ratioOf(state)).toBeCloseTo(1);
  });

  it('counts instructions and tools in every measure without an anchor', () => {
    const tool = { name: 'read', description: tokens(300), inputSchema: {} };
    const meter = smallMeter({}, { instructions: tokens(700), tools: [tool] });
    const { byKind } = meter.measure([], stateOf());
    expect(byKind.instructions).toBe(700);
    expect(byKind.tools).toBe(314);
  });

  it('takes no anchor that was sent with other instructions or tools', () => {
    const [before, after] = [
      smallMeter({}, { instructions: tokens(300) }),
      smallMeter({}, { instructions: tokens(900) }),
    ];
    const state = stateOf({ anchor, overheadTokens: 300 });
    expect(before.measure(view, state).isAnchored).toBe(true);
    expect(after.measure(view, state).isAnchored).toBe(false);
    expect([before, after].map((meter) => meter.hasOtherOverhead(state))).toEqual([false, true]);
  });

  it('keeps no more free than half of the reserve: what is usable leaves room for an answer', () => {
    const meter = smallMeter();
    const large = { ...measured(1_000_000), isAnchored: false };
    expect(meter.marginOf(large, stateOf())).toBe(2_000);
  });

  it('keeps 1 % free where anchor and ratio are the session’s own, and 5 % where one of them is not', () => {
    const meter = smallMeter();
    const sure = measured(10_000);
    expect(meter.marginOf(sure, stateOf({ calibration }))).toBe(100);
    expect(meter.marginOf(sure, stateOf())).toBe(500);
    expect(meter.marginOf({ ...sure, isAnchored: false }, stateOf({ calibration }))).toBe(500);
  });
});

describe('the limits of a meter', () => {
  const known = { ...UNKNOWN_MODEL, contextWindow: 200_000, maxOutput: 64_000, isGuessed: false };

  it('are those of the model, with its reserve', () => {
    const { limits, thresholds } = smallMeter({}, { entry: known });
    expect(limits).toEqual({ contextWindow: 200_000, maxOutput: 64_000 });
    expect(thresholds.usableTokens).toBe(168_000);
  });

  it('shrink to what the endpoint taught, and never grow for a described model', () => {
    const of = (contextWindow: number) => smallMeter({}, { entry: known, learned: { contextWindow } }).limits;
    expect(of(32_768).contextWindow).toBe(32_768);
    expect(of(1_000_000).contextWindow).toBe(200_000);
  });

  it('become what the endpoint taught for a model that nobody described, larger or smaller', () => {
    const of = (contextWindow: number) => smallMeter({}, { entry: UNKNOWN_MODEL, learned: { contextWindow } }).limits;
    expect(of(131_072).contextWindow).toBe(131_072);
    expect(of(8_192).contextWindow).toBe(8_192);
  });

  it('leave out what an agent does not want to use of a large window', () => {
    const { thresholds } = smallMeter({ maxContextTokens: 50_000 }, { entry: known });
    expect(thresholds).toMatchObject({ usableTokens: 50_000, compactAtTokens: 40_000 });
  });
});

describe('what an agent says about its thresholds', () => {
  it('wins over its strategy, and a strategy over the defaults', () => {
    const at = (policy: unknown) => smallMeter(policy).thresholds.compactAtTokens;
    const compaction = { strategy: 'proactive-threshold' };
    expect(at({})).toBe(12_800);
    expect(at({ compaction })).toBe(8_000);
    expect(at({ compaction: { ...compaction, options: { thresholdPercent: 60 } } })).toBe(9_600);
    expect(smallMeter({ prune: { thresholdPercent: 70 } }).thresholds.pruneAtTokens).toBe(11_200);
  });

  it('keeps 30 % with the early strategy', () => {
    expect(smallMeter({ compaction: { strategy: 'proactive-threshold' } }).thresholds.tailTokens).toBe(4_800);
  });

  it('protects no more than a quarter of what can be used, and asks for no more to be freed', () => {
    const wanted = smallMeter({ prune: { protectTokens: 90_000, minimumTokens: 90_000 } }).thresholds;
    expect(wanted).toMatchObject({ pruneProtectTokens: 4_000, pruneMinimumTokens: 4_000 });
    const less = smallMeter({ prune: { protectTokens: 900, minimumTokens: 300 } }).thresholds;
    expect(less).toMatchObject({ pruneProtectTokens: 900, pruneMinimumTokens: 300 });
  });
});

describe('the tokens of earlier sessions with the model', () => {
  it('are where a session starts from, with the margin of a cold start', () => {
    const { policy } = smallMeter();
    const input = { model: MODEL, entry: UNKNOWN_MODEL, learned: null, policy, instructions: '', tools: [] };
    const meter = createContextMeter({ ...input, prior: 1.5, count: (text) => text.length });
    expect(meter.ratioOf(stateOf())).toBeCloseTo(1.65);
  });
});

test.each([
  ['the default', {}, [50, 80, 98]],
  ['a threshold of its own', { compaction: { options: { thresholdPercent: 40 } } }, [25, 40, 40]],
  ['proactive', { compaction: { strategy: 'proactive-threshold' } }, [31.2, 50, 50]],
  ['no prunes', { prune: { enabled: false } }, [null, 80, 98]],
  ['only at an overflow', { compaction: { strategy: 'reactive-overflow' } }, [50, null, null]],
])('thresholds in percent: %s', (_what, policy, percents) => {
  const { pruneAtPercent, compactAtPercent, compactByPercent } = thresholdPercentsOf(contextPolicySchema.parse(policy));
  expect([pruneAtPercent, compactAtPercent, compactByPercent]).toEqual(percents);
});
