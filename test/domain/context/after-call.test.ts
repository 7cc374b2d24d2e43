import { describe, expect, it } from 'vitest';
import { afterCall } from '../../../src/domain/context/meter/after-call.ts';
import { startCalibration } from '../../../src/domain/context/meter/calibration.ts';
import type { ContextState } from '../../../src/domain/context/meter/state.ts';
import type { ViewMessage } from '../../../src/domain/transcript/message.ts';
import { assistantOf, callOf, MODEL, textOf, usageOf, userOf } from './measure-view.ts';
import { smallMeter, stateOf } from './small-meter.ts';

const meter = smallMeter();
const tokens = (amount: number): string => 'x'.repeat(amount * 4);
const view = [userOf(1, textOf('Go on.')), assistantOf(2, callOf({ path: 'a.ts' }, tokens(3_000)))];
const anchor = { usage: usageOf({ inputTokens: 1_000, outputTokens: 50 }), messageSeq: 2 };

function call(inputTokens: number, state: Partial<ContextState> = { anchor }, sent: readonly ViewMessage[] = view) {
  return afterCall(meter, stateOf(state), {
    view: sent,
    usage: usageOf({ inputTokens, outputTokens: 30 }),
    messageSeq: 3,
  });
}

describe('a call that succeeded', () => {
  it('is the anchor of the next measure', () => {
    expect(call(4_500).state).toMatchObject({ model: MODEL, anchor: { messageSeq: 3, usage: { inputTokens: 4_500 } } });
  });

  it('that was billed far less than was measured is no anchor: the bill lacks a part', () => {
    const answered = (inputTokens: number, expectedTokens: number) =>
      afterCall(meter, stateOf({ anchor }), { view, usage: usageOf({ inputTokens }), messageSeq: 3, expectedTokens });
    expect(answered(60, 7_000).state.anchor).toBe(null);
    expect(answered(5_000, 7_000).state.anchor).not.toBe(null);
    expect(answered(60, 300).state.anchor).not.toBe(null);
  });

  it('that was billed nothing is no anchor', () => {
    expect(call(0).state.anchor).toBe(null);
  });

  it('notes with what instructions and tools it was sent, and teaches nothing where they changed', () => {
    const { state } = call(4_500);
    expect(state.overheadTokens).toBe(meter.overheadTokens.instructions + meter.overheadTokens.tools);
    expect(call(4_500, { anchor, overheadTokens: 77 }).refused).toBe('tools_changed');
  });

  it('closes the breaker and takes back what was noted for its step', () => {
    const place = { runId: 'run-1', stepNo: 1 };
    const noted = { compactionsSinceStep: 2, overflow: { ...place, count: 1 }, outputCap: { ...place, tokens: 300 } };
    expect(call(4_500, { anchor, ...noted }).state).toMatchObject({
      compactionsSinceStep: 0,
      overflow: null,
      outputCap: null,
    });
  });

  it('does not forget that a compaction failed: the view is still the one that it failed on', () => {
    expect(call(4_500, { anchor, failedAtTokens: 9_000 }).state.failedAtTokens).toBe(9_000);
  });
});

describe('what it teaches', () => {
  it('is the ratio of what was billed for the results to what they were estimated at', () => {
    // 1 050 tokens were certain; 3 009 were an estimate of the result and its frame.
    const { state, refused } = call(1_050 + 2 * 3_009);
    expect(refused).toBe(null);
    expect(state.calibration).toMatchObject({ realTokens: 2 * 3_009, estimatedTokens: 3_009 });
    expect(meter.ratioOf(state)).toBe(2);
  });

  it('of the first call of a session is the whole of it, instructions and tools included', () => {
    const fresh = smallMeter({}, { instructions: tokens(5_000) });
    const { state, refused } = afterCall(
      fresh,
      { ...stateOf(), model: null },
      {
        view: view.slice(0, 1),
        usage: usageOf({ inputTokens: 6_000 }),
        messageSeq: 2,
      },
    );
    expect(refused).toBe(null);
    expect(state.calibration).toMatchObject({ realTokens: 6_000, estimatedTokens: 5_006 });
  });

  it.each<[string, string, Partial<ContextState>]>([
    ['after a prune or a compaction', 'view_rewritten', { anchor: null }],
    ['of another model', 'model_changed', { anchor, model: 'openai/gpt-5.4' }],
  ])('%s is nothing: %s', (_when, reason, state) => {
    const before = startCalibration('unknown', 'estimate', 1);
    const { state: after, refused } = call(4_500, { ...state, calibration: before });
    expect(refused).toBe(reason);
    expect(after.calibration).toMatchObject({ realTokens: 0, estimatedTokens: 0 });
  });

  it('is nothing where an image came since: nobody knows its tokens', () => {
    const image = { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AAAA' } as const;
    expect(call(9_000, { anchor }, [...view, userOf(3, image)]).refused).toBe('media_changed');
  });

  it('is nothing where the provider cut the request to a round size, and the anchor is taken all the same', () => {
    const { state, refused } = call(4_096);
    expect(refused).toBe('suspicious_cap');
    expect(state.anchor?.usage.inputTokens).toBe(4_096);
  });
});
