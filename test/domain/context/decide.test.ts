import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideContext } from '../../../src/domain/context/decide.ts';
import { UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import { contextPolicySchema, STRATEGIES } from '../../../src/domain/context/limits/policy.ts';
import { createContextMeter } from '../../../src/domain/context/meter/context-meter.ts';
import type { Measurement } from '../../../src/domain/context/meter/measure.ts';
import type { ContextState } from '../../../src/domain/context/meter/state.ts';
import { measured, smallMeter, stateOf, worthOf } from './small-meter.ts';

type Case = Readonly<{
  policy?: unknown;
  state?: Partial<ContextState>;
  prunable?: boolean;
  pays?: boolean;
  mostOutput?: number;
}>;

const LARGE = {
  model: 'test/large',
  learned: null,
  prior: null,
  policy: contextPolicySchema.parse({}),
  instructions: '',
  tools: [],
  count: (text: string) => text.length / 4,
};

function decide(
  tokens: number | Measurement,
  { policy, state, prunable: prune = false, pays: compaction = true, mostOutput }: Case = {},
) {
  const measurement = typeof tokens === 'number' ? measured(tokens) : tokens;
  return decideContext(smallMeter(policy), measurement, stateOf(state), {
    worth: worthOf({ prune, compaction }),
    mostOutputTokens: mostOutput,
  });
}
const kindOf = (...args: Parameters<typeof decide>): string => decide(...args).kind;

describe('a request that fits', () => {
  it('is sent with room for the answer that its provider can keep', () => {
    expect(decide(1_000)).toEqual({ kind: 'proceed', maxOutputTokens: 4_000, isWindowBound: false });
  });

  it('asks for no longer answer than the agent allows', () => {
    expect(decide(1_000, { mostOutput: 700 })).toEqual({ kind: 'proceed', maxOutputTokens: 700, isWindowBound: false });
  });

  it('near the end of the window asks for less, and knows that an answer cut short was cut by the window', () => {
    const manual = { compaction: { strategy: 'manual' } };
    expect(decide(15_900, { policy: manual })).toEqual({
      kind: 'proceed',
      // 5 % of the estimate stay free as a margin.
      maxOutputTokens: 20_000 - 15_900 - 795,
      isWindowBound: true,
    });
  });

  it('is sent however often compactions failed before: nothing is wrong with it', () => {
    expect(kindOf(1_000, { state: { compactionsSinceStep: 99 } })).toBe('proceed');
  });
});

describe('an answer of a few tokens', () => {
  it('may be all that an agent keeps room for: there is some wherever the request fits', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4_000 }), fc.integer({ min: 0, max: 19_999 }), (outputReserve, used) => {
        const decision = decide(used, { policy: { outputReserve, compaction: { strategy: 'reactive-overflow' } } });
        if (used > 20_000 - outputReserve) expect(decision.kind).toBe('compact');
        else expect(decision.kind === 'proceed' ? decision.maxOutputTokens : 0).toBeGreaterThan(0);
      }),
    );
  });

  it('is not why a request that fits would be compacted: what is usable leaves room, however large the window', () => {
    const entry = { ...UNKNOWN_MODEL, contextWindow: 1_000_000, maxOutput: 128_000, isGuessed: false };
    const meter = createContextMeter({ ...LARGE, entry });
    const { usableTokens } = meter.thresholds;
    const state = stateOf({ failedAtTokens: usableTokens - 1_000, compactionsSinceStep: 1 });
    const unanchored = { ...measured(usableTokens - 1_000), isAnchored: false };
    expect(decideContext(meter, unanchored, state, { worth: worthOf() })).toMatchObject({ kind: 'proceed' });
  });
});

describe('a prune', () => {
  it('is due from half of what can be used, where it is worth its while', () => {
    expect(kindOf(7_999, { prunable: true })).toBe('proceed');
    expect(kindOf(8_000, { prunable: true })).toBe('prune');
    expect(kindOf(8_000, { prunable: false })).toBe('proceed');
  });

  it('goes before a compaction: it is cheaper and loses less', () => {
    expect(kindOf(13_000, { prunable: true })).toBe('prune');
    expect(kindOf(17_000, { prunable: true })).toBe('prune');
  });

  it('is not asked for where it is not due: looking for it reads the whole view', () => {
    const asked: string[] = [];
    const ask = (): boolean => {
      asked.push('asked');
      return false;
    };
    decideContext(smallMeter(), measured(7_999), stateOf(), { worth: { prune: ask, compaction: ask } });
    expect(asked).toEqual([]);
  });

  it('never happens where it is turned off, and does whatever the strategy', () => {
    expect(kindOf(12_000, { policy: { prune: { enabled: false } }, prunable: true })).toBe('proceed');
    for (const strategy of STRATEGIES) {
      expect(kindOf(12_000, { policy: { compaction: { strategy } }, prunable: true })).toBe('prune');
    }
  });
});

describe('a compaction', () => {
  it('is due from 80 % of what can be used where it pays, and not forced there', () => {
    expect(kindOf(12_799)).toBe('proceed');
    expect(decide(12_800)).toEqual({ kind: 'compact', reason: 'threshold', force: false });
    expect(kindOf(12_800, { pays: false })).toBe('proceed');
  });

  it('is due from 98 % on whatever it costs, and from where an agent says', () => {
    expect(kindOf(15_679, { pays: false })).toBe('proceed');
    expect(decide(15_680, { pays: false })).toEqual({ kind: 'compact', reason: 'threshold', force: false });
    const policy = { compaction: { options: { thresholdPercent: 70 } } };
    expect(kindOf(11_199, { policy })).toBe('proceed');
    expect(kindOf(11_200, { policy, pays: false })).toBe('compact');
  });

  it('is forced above what can be used', () => {
    expect(decide(16_000)).toMatchObject({ kind: 'compact', force: false });
    expect(decide(16_001)).toMatchObject({ kind: 'compact', force: true });
  });

  it('is not repeated on what one has just left: a step has to use it first', () => {
    expect(kindOf(13_000, { state: { compactionsSinceStep: 1 } })).toBe('proceed');
    expect(kindOf(16_001, { state: { compactionsSinceStep: 1 } })).toBe('compact');
  });

  it('that failed is tried again only once the view has grown by a tenth', () => {
    expect(kindOf(14_599, { state: { failedAtTokens: 13_000 } })).toBe('proceed');
    expect(kindOf(14_600, { state: { failedAtTokens: 13_000 } })).toBe('compact');
  });

  it('that left the view above its threshold is tried again only once the view has grown by half', () => {
    const policy = { compaction: { options: { thresholdPercent: 30 } } };
    const floorAt = (floorTokens: number | null) => ({ policy, state: { floorTokens } });
    expect(kindOf(4_800, floorAt(null))).toBe('compact');
    expect([7_799, 7_800].map((used) => kindOf(used, floorAt(5_200)))).toEqual(['proceed', 'compact']);
    // A small one waits for a tenth of what is usable.
    expect([2_599, 4_800].map((used) => kindOf(used, floorAt(1_000)))).toEqual(['proceed', 'compact']);
    expect(kindOf(16_001, floorAt(15_000))).toBe('compact');
  });

  it('that failed is tried again at once above what can be used', () => {
    expect(kindOf(16_001, { state: { failedAtTokens: 15_900 } })).toBe('compact');
  });

  it('waits for somebody to ask where the strategy is manual, but not above what can be used', () => {
    const policy = { compaction: { strategy: 'reactive-overflow' } };
    expect(kindOf(15_000, { policy })).toBe('proceed');
    expect(kindOf(16_001, { policy })).toBe('compact');
  });

  it('is not forced by an agent that wants answers of a few tokens', () => {
    expect(kindOf(1_000, { mostOutput: 8 })).toBe('proceed');
  });
});

describe('the end of a run', () => {
  it('comes at once for instructions and tools that are larger than what can be used, and names their sizes', () => {
    const decision = decide(measured(17_000, { instructions: 9_000, tools: 7_500 }));
    if (decision.kind !== 'exhausted') throw new Error(decision.kind);
    expect(decision.error.code).toBe('context_exhausted');
    expect(decision.error.message).toBe(
      'The instructions and tools alone are larger than what can be used: 17000 of 16000 tokens (window 20000; instructions 9000, tools 7500, user 500).',
    );
  });

  it('comes where the view is too large and nothing may be compacted (strategy: manual)', () => {
    expect(kindOf(16_000, { policy: { compaction: { strategy: 'manual' } } })).toBe('proceed');
    const decision = decide(16_001, { policy: { compaction: { strategy: 'manual' } } });
    expect(decision).toMatchObject({ kind: 'exhausted', error: { code: 'context_exhausted' } });
  });

  it('comes after three compactions that did not help, and not before', () => {
    expect(kindOf(16_001, { state: { compactionsSinceStep: 2 } })).toBe('compact');
    const decision = decide(16_001, { state: { compactionsSinceStep: 3 } });
    if (decision.kind !== 'exhausted') throw new Error(decision.kind);
    expect(decision.error.message).toContain('3 compactions did not help');
  });
});
