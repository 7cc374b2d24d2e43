import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { afterAnswer } from '../../../src/domain/context/after-answer.ts';
import type { LearnedLimits } from '../../../src/domain/context/limits/limits.ts';
import { type ModelEntry, UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import { lessonOfRefusal, lessonOfSuccess } from '../../../src/domain/context/meter/learned-limits.ts';
import { assistantOf, textOf, usageOf, userOf } from './measure-view.ts';
import { measured, smallMeter, stateOf, worthOf } from './small-meter.ts';

const GUESSED = UNKNOWN_MODEL;
const TOLD: ModelEntry = { ...UNKNOWN_MODEL, contextWindow: 200_000, isGuessed: false };
const contextMeterOf = (entry: ModelEntry, learned: LearnedLimits | null = null) => smallMeter({}, { entry, learned });
const usage = (inputTokens: number, outputTokens = 100) => usageOf({ inputTokens, outputTokens });

describe('a call that went well', () => {
  it('raises a guessed window that it was larger than', () => {
    expect(lessonOfSuccess(contextMeterOf(GUESSED), usage(140_000))).toEqual({
      by: 'shown',
      limits: { contextWindow: 140_100 },
    });
    expect(lessonOfSuccess(contextMeterOf(GUESSED), usage(127_000))).toBeNull();
  });

  it('raises what an overflow or a cut had lowered too far', () => {
    expect(lessonOfSuccess(contextMeterOf(GUESSED, { contextWindow: 9_000 }), usage(9_500))?.limits).toEqual({
      contextWindow: 9_600,
    });
    expect(lessonOfSuccess(contextMeterOf(TOLD, { inputLimit: 2_050 }), usage(3_000))?.limits).toEqual({
      inputLimit: 3_000,
    });
  });

  it('raises no window that somebody told', () => {
    expect(lessonOfSuccess(contextMeterOf(TOLD), usage(250_000))).toBeNull();
    const meter = contextMeterOf(TOLD, { contextWindow: 250_000 });
    expect(meter.limits.contextWindow).toBe(200_000);
  });

  it('is no overflow then, and its answer counts', () => {
    const answer = (of: ReturnType<typeof contextMeterOf>, finishReason: 'stop' | 'length' = 'stop') =>
      afterAnswer({
        meter: of,
        state: stateOf(),
        place: { runId: 'r', stepNo: 1 },
        view: [userOf(1, textOf('Go on.'))],
        measurement: measured(9_000),
        maxOutputTokens: 1_000,
        isWindowBound: false,
        message: assistantOf(2, textOf('Done.')),
        usage: usage(9_500),
        finishReason,
        rawFinishReason: null,
        toolCalls: 0,
        worth: () => worthOf(),
      });
    const lowered = contextMeterOf(GUESSED, { contextWindow: 9_000 });
    expect(answer(lowered)).toMatchObject({ lesson: { by: 'shown' }, contextState: { anchor: { messageSeq: 2 } } });
    expect(answer(lowered, 'length')).toMatchObject({ lesson: null, before: 'compaction' });
  });
});

describe('a refusal without numbers', () => {
  it('lowers a guessed window below the request, and leaves one that somebody told', () => {
    expect(lessonOfRefusal(contextMeterOf(GUESSED), measured(60_000), null)).toEqual({
      by: 'told',
      limits: { contextWindow: 42_000 },
    });
    expect(lessonOfRefusal(contextMeterOf(TOLD), measured(60_000), null)).toBeNull();
  });

  it('does not lower it below what went through before', () => {
    expect(lessonOfRefusal(contextMeterOf(GUESSED), measured(10_000), usage(9_000))?.limits).toEqual({
      contextWindow: 9_100,
    });
  });

  it('finds the real window within a few refusals, and never ends far below it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 4_096, max: 120_000 }), (real) => {
        let learned: LearnedLimits | null = null;
        let refusals = 0;
        for (;;) {
          const { limits } = contextMeterOf(GUESSED, learned);
          if (limits.contextWindow <= real) break;
          // This request fills the window as it is known so far.
          learned =
            lessonOfRefusal(contextMeterOf(GUESSED, learned), measured(limits.contextWindow), null)?.limits ?? null;
          refusals++;
        }
        expect(refusals).toBeLessThanOrEqual(10);
        expect(contextMeterOf(GUESSED, learned).limits.contextWindow).toBeGreaterThan(real * 0.69);
      }),
    );
  });
});
