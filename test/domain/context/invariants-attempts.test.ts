import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { afterAnswer } from '../../../src/domain/context/after-answer.ts';
import {
  afterCompaction,
  afterFailedCompaction,
  planAfterFailure,
} from '../../../src/domain/context/compaction/compaction-outcome.ts';
import { decideContext, MAX_COMPACTIONS_WITHOUT_STEP } from '../../../src/domain/context/decide.ts';
import type { ContextMeter } from '../../../src/domain/context/meter/context-meter.ts';
import type { CompactionReason, ContextState } from '../../../src/domain/context/meter/state.ts';
import { planOverflow } from '../../../src/domain/context/overflow-plan.ts';
import { assistantOf, textOf, usageOf, userOf } from './measure-view.ts';
import { measured, smallMeter, stateOf, worthOf } from './small-meter.ts';

/** One event of a step: the size of its view, the provider's reply, and the outcome of a compaction. */
const event = fc.record({
  usedShare: fc.double({ min: 0.1, max: 1.5, noNaN: true }),
  provider: fc.constantFrom('overflow', 'overflow', 'no_answer', 'answers'),
  remedy: fc.constantFrom('compact', 'shrink_output', 'strip_media'),
  hasMedia: fc.boolean(),
  compaction: fc.constantFrom('helps', 'hardly_helps', 'fails', 'last_rung_fails'),
});
type Event = typeof event extends fc.Arbitrary<infer T> ? T : never;

const place = { runId: 'run', stepNo: 1 };
const view = [userOf(1, textOf('Go on.'))];

type Attempt = { requests: number; compactions: number; end: string | null; state: ContextState };

/** A compaction job; it is the same for every route that asks for it. */
function compact(
  meter: ContextMeter,
  attempt: Attempt,
  { compaction, usedShare }: Event,
  reason: CompactionReason,
): void {
  const { usableTokens } = meter.thresholds;
  const tokens = Math.floor(usedShare * usableTokens);
  if (attempt.state.compactionsSinceStep >= MAX_COMPACTIONS_WITHOUT_STEP) {
    attempt.end = 'exhausted';
    return;
  }
  attempt.compactions++;
  if (compaction === 'helps' || compaction === 'hardly_helps') {
    const left = Math.floor(tokens * (compaction === 'helps' ? 0.4 : 0.9));
    attempt.state = afterCompaction(meter, attempt.state, reason, left);
    return;
  }
  const isLastRung = compaction === 'last_rung_fails';
  const after = planAfterFailure({ reason, tokens, usableTokens, isLastRung });
  attempt.state =
    after === 'remove_middle'
      ? afterCompaction(meter, attempt.state, reason, Math.floor(tokens / 2))
      : afterFailedCompaction(attempt.state, reason, tokens);
  if (after === 'exhausted') attempt.end = 'exhausted';
}

function take(meter: ContextMeter, attempt: Attempt, event: Event): void {
  const measurement = measured(Math.floor(event.usedShare * meter.thresholds.usableTokens));
  const decision = decideContext(meter, measurement, attempt.state, { worth: worthOf() });
  if (decision.kind === 'exhausted') attempt.end = 'exhausted';
  if (decision.kind === 'compact') compact(meter, attempt, event, decision.reason);
  if (decision.kind !== 'proceed') return;
  attempt.requests++;
  const { maxOutputTokens } = decision;
  if (event.provider === 'answers') attempt.end = 'answered';
  else if (event.provider === 'no_answer') {
    const after = afterAnswer({
      meter,
      state: attempt.state,
      place,
      view,
      measurement,
      maxOutputTokens,
      isWindowBound: false,
      message: assistantOf(2),
      usage: usageOf({ inputTokens: meter.limits.contextWindow }),
      finishReason: 'length',
      rawFinishReason: null,
      toolCalls: 0,
      worth: () => worthOf(),
    });
    attempt.state = after.contextState;
    if (after.exhausted !== undefined) attempt.end = 'exhausted';
    else compact(meter, attempt, event, 'overflow');
  } else overflow(meter, attempt, event, maxOutputTokens);
}

function overflow(meter: ContextMeter, attempt: Attempt, event: Event, maxOutputTokens: number): void {
  const { remedy, hasMedia } = event;
  const { state } = attempt;
  const plan = planOverflow({ meter, state, place, remedy, numbers: null, maxOutputTokens, hasMedia, message: 'no' });
  if (plan.kind !== 'retry') {
    attempt.end = plan.kind;
    return;
  }
  attempt.state = plan.contextState;
  if (plan.after === 'compaction') compact(meter, attempt, event, 'overflow');
}

describe('the attempts at a step', () => {
  it('invariant 10: are at most three requests and three compactions, by whatever routes, and then they end', () => {
    const ends = new Set<string | null>();
    fc.assert(
      fc.property(fc.array(event, { minLength: 12, maxLength: 12 }), fc.boolean(), (events, compacts) => {
        const meter = smallMeter({ compaction: { strategy: compacts ? 'auto' : 'manual' } });
        const attempt: Attempt = { requests: 0, compactions: 0, end: null, state: stateOf() };
        for (const next of events) if (attempt.end === null) take(meter, attempt, next);
        ends.add(attempt.end);
        expect(attempt.end).not.toBe(null);
        expect(attempt.requests).toBeLessThanOrEqual(3);
        expect(attempt.compactions).toBeLessThanOrEqual(compacts ? MAX_COMPACTIONS_WITHOUT_STEP : 0);
      }),
    );
    expect(ends).toEqual(new Set(['answered', 'exhausted', 'helpless']));
  });

  it('invariant 10: begin anew only once a step has succeeded', () => {
    const meter = smallMeter();
    const state = stateOf({ compactionsSinceStep: 3, overflow: { ...place, count: 2 }, failedAtTokens: 9_000 });
    const after = afterAnswer({
      meter,
      state,
      place,
      view,
      measurement: measured(5_000),
      maxOutputTokens: 1_000,
      isWindowBound: false,
      message: assistantOf(2, textOf('Done.')),
      usage: usageOf({ inputTokens: 5_000, outputTokens: 5 }),
      finishReason: 'stop',
      rawFinishReason: 'stop',
      toolCalls: 0,
      worth: () => worthOf(),
    });
    expect(after.contextState).toMatchObject({ compactionsSinceStep: 0, overflow: null });
  });
});
