import { describe, expect, it } from 'vitest';
import { afterCompaction, afterFailedCompaction } from '../../../src/domain/context/compaction/compaction-outcome.ts';
import { summaryOrderText, summaryRequestText } from '../../../src/domain/context/compaction/summary-request.ts';
import { decideContext, MAX_COMPACTIONS_WITHOUT_STEP } from '../../../src/domain/context/decide.ts';
import { UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import { contextPolicySchema } from '../../../src/domain/context/limits/policy.ts';
import { createContextMeter } from '../../../src/domain/context/meter/context-meter.ts';
import type { Measurement } from '../../../src/domain/context/meter/measure.ts';
import { type ContextState, NEW_CONTEXT_STATE } from '../../../src/domain/context/meter/state.ts';
import { type OverflowRemedy, planOverflow } from '../../../src/domain/context/overflow-plan.ts';
import { countText } from './compaction-view.ts';
import { MODEL, usageOf } from './measure-view.ts';
import { worthOf } from './small-meter.ts';

/** 12k of 16k are usable: a compaction is due from 9,600 on. */
const meterWith = (policy: unknown = {}) =>
  createContextMeter({
    model: MODEL,
    entry: { ...UNKNOWN_MODEL, contextWindow: 16_000, maxOutput: 4_000, isGuessed: false },
    learned: null,
    prior: null,
    policy: contextPolicySchema.parse(policy),
    instructions: '',
    tools: [],
    count: countText,
  });
const meter = meterWith();

const measured = (total: number): Measurement => ({
  total,
  byKind: {
    instructions: 0,
    tools: 0,
    user: total,
    assistant: 0,
    reasoning: 0,
    toolCalls: 0,
    toolResults: 0,
    files: 0,
    summary: 0,
  },
  isAnchored: true,
});
const stateWith = (rest: Partial<ContextState>): ContextState => ({ ...NEW_CONTEXT_STATE, ...rest });
const decide = (total: number, state: ContextState, policy?: unknown) =>
  decideContext(meterWith(policy), measured(total), state, { worth: worthOf() });

const place = { runId: 'r', stepNo: 4 };
const overflow = (remedy: OverflowRemedy, state: ContextState, rest: object = {}) =>
  planOverflow({
    meter,
    state,
    place,
    remedy,
    numbers: null,
    maxOutputTokens: 4_000,
    hasMedia: true,
    message: 'Too large',
    ...rest,
  });

describe('the breaker of compactions', () => {
  const open = stateWith({ compactionsSinceStep: MAX_COMPACTIONS_WITHOUT_STEP });

  // The bound must hold for every route by which a compaction starts (senpi#527).
  it.each([
    ['the threshold', () => decide(12_001, open)],
    ['an overflow that the provider reports', () => overflow('compact', open)],
    [
      'an overflow of the output, once less of it was refused too',
      () => overflow('shrink_output', { ...open, outputCap: { ...place, tokens: 500 } }),
    ],
  ])('ends the run after three in a row without a step that succeeds, also by %s', (_route, plan) => {
    expect(plan()).toMatchObject({ kind: 'exhausted', error: { code: 'context_exhausted' } });
  });

  it('lets the run go on below what can be used, and compacts nothing there that was just compacted', () => {
    for (const compactionsSinceStep of [1, 2, 3]) {
      expect(decide(11_999, stateWith({ compactionsSinceStep })).kind).toBe('proceed');
    }
    expect(decide(11_999, NEW_CONTEXT_STATE)).toEqual({ kind: 'compact', reason: 'threshold', force: false });
  });

  it('counts failed and successful compactions alike, but not those that somebody asked for', () => {
    const counts = (['threshold', 'overflow', 'stream', 'tool_results', 'manual'] as const).map((reason) => [
      afterCompaction(meter, NEW_CONTEXT_STATE, reason, 5_000).compactionsSinceStep,
      afterFailedCompaction(NEW_CONTEXT_STATE, reason, 11_000).compactionsSinceStep,
    ]);
    expect(counts).toEqual([...Array(4).fill([1, 1]), [0, 0]]);
  });
});

describe('an overflow that the provider reports', () => {
  it('of the output alone asks for less of it, not for a shorter history (goose#3635)', () => {
    const numbers = {
      limitTokens: 16_000,
      scope: 'window',
      requestedTokens: 17_000,
      inputTokens: 13_000,
      outputTokens: 4_000,
      outputRoomTokens: 3_000,
      isLasting: true,
    } as const;
    const first = overflow('shrink_output', NEW_CONTEXT_STATE, { numbers });
    expect(first).toMatchObject({ after: 'step', contextState: { outputCap: { ...place, tokens: 3_000 } } });
    const again = first.kind === 'retry' ? first.contextState : NEW_CONTEXT_STATE;
    expect(overflow('shrink_output', again)).toMatchObject({ after: 'compaction' });
  });

  it('ends the run the third time in one step, and is forgotten in the next (opencode#21960)', () => {
    const twice = stateWith({ overflow: { ...place, count: 2 } });
    for (const remedy of ['compact', 'shrink_output', 'strip_media'] as const) {
      expect(overflow(remedy, twice).kind).toBe('exhausted');
      expect(overflow(remedy, twice, { place: { ...place, stepNo: 5 } }).kind).toBe('retry');
    }
  });

  it('ends the run whatever would help where nothing may be compacted (opencode#30664, opencode#16882)', () => {
    const never = meterWith({ compaction: { strategy: 'manual' } });
    expect(overflow('compact', NEW_CONTEXT_STATE, { meter: never }).kind).toBe('exhausted');
    for (const remedy of ['shrink_output', 'strip_media'] as const) {
      expect(overflow(remedy, NEW_CONTEXT_STATE, { meter: never }).kind).toBe('retry');
    }
    expect(decide(11_999, NEW_CONTEXT_STATE, { compaction: { strategy: 'manual' } }).kind).toBe('proceed');
    expect(decide(12_001, NEW_CONTEXT_STATE, { compaction: { strategy: 'manual' } }).kind).toBe('exhausted');
  });

  it('for its bytes is no matter of the history where no media is in it (opencode#14562)', () => {
    expect(overflow('strip_media', NEW_CONTEXT_STATE, { hasMedia: false })).toEqual({ kind: 'helpless' });
  });
});

describe('what a compaction leaves of what is known', () => {
  const anchor = { usage: usageOf({ inputTokens: 11_000, outputTokens: 10 }), messageSeq: 8 };
  const calibration = { prior: 1.2, margin: 1.1, realTokens: 14_000, estimatedTokens: 10_000 };

  it('is no usage of before it, which would ask for the next one at once (pi: usage older than the compaction)', () => {
    expect(afterCompaction(meter, stateWith({ model: MODEL, anchor }), 'threshold', 5_000).anchor).toBe(null);
  });

  it('is what was learned about the tokens of the model (eve#3094)', () => {
    expect(afterCompaction(meter, stateWith({ calibration }), 'threshold', 5_000).calibration).toBe(calibration);
  });
});

describe('the order for a summary', () => {
  const order = { round: 2, targetTokens: 1_000, instructions: undefined, reminder: null };

  it('keeps what is done apart from what is to do, and never drops a constraint (opencode#50816, codex#25792)', () => {
    for (const text of [summaryOrderText(order), summaryRequestText(order, 'Before.', 'Since.')]) {
      expect(text).toContain('## Completed\n(what is done and must not be done again');
      expect(text.indexOf('## Completed')).toBeLessThan(text.indexOf('## Next'));
      expect(text).toContain('move what is done to Completed, and never drop a constraint of the user');
    }
  });

  it('gives the summary before in a field of its own, whole (opencode#50816)', () => {
    const before = `## Goal\n${'Keep this. '.repeat(900)}`;
    expect(summaryRequestText(order, before, 'Since.')).toContain(`<previous_summary>\n${before}\n</previous_summary>`);
  });
});
