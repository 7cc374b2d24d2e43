import { describe, expect, it } from 'vitest';
import { UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import { contextPolicySchema } from '../../../src/domain/context/limits/policy.ts';
import { createContextMeter } from '../../../src/domain/context/meter/context-meter.ts';
import { type ContextState, NEW_CONTEXT_STATE } from '../../../src/domain/context/meter/state.ts';
import { planPruneJob, withMarks } from '../../../src/domain/context/prune/prune-job.ts';
import type { Part, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { assistantOf, callOf, MODEL, textOf, usageOf, userOf } from './measure-view.ts';

/**
 * 20k window, 16k usable: prune from 8k, protects 4k, needs 1.6k; compaction from 12.8k. A token is four characters.
 */
const meter = createContextMeter({
  model: MODEL,
  entry: { ...UNKNOWN_MODEL, contextWindow: 20_000, maxOutput: 4_000, isGuessed: false },
  learned: null,
  prior: 1 / 1.1,
  policy: contextPolicySchema.parse({ compaction: { options: { thresholdPercent: 80 } } }),
  instructions: '',
  tools: [],
  count: (text) => Math.ceil(text.length / 4),
});

const output = (tokens: number): Part => callOf({ path: 'a.ts' }, 'x'.repeat(tokens * 4));
const image: Part = {
  type: 'file',
  mediaType: 'image/png',
  filename: 'a.png',
  url: 'data:image/png;base64,iVBORw0KGgo=',
};
const stateOf = (state: Partial<ContextState> = {}): ContextState => ({ ...NEW_CONTEXT_STATE, model: MODEL, ...state });
const asked = { reason: 'manual', force: true, stripMedia: false } as const;
const refusedForBytes = { reason: 'overflow', force: true, stripMedia: true } as const;
const plan = (view: readonly ViewMessage[], state: Partial<ContextState> = {}, goesOn = true) =>
  planPruneJob(meter, stateOf(state), view, goesOn);
const indexesOf = (planned: ReturnType<typeof plan>) => planned.marks.map((mark) => `${mark.messageId}.${mark.index}`);

const outputs = (...tokens: number[]): ViewMessage[] => [
  userOf(1, textOf('go')),
  ...tokens.map((amount, at) => assistantOf(at + 2, output(amount))),
];

describe('a prune job', () => {
  it('marks what is prunable, says so, and leaves no anchor for a view that was rewritten', () => {
    const anchor = { usage: usageOf({ inputTokens: 9_000 }), messageSeq: 4 };
    const planned = plan(outputs(2_000, 2_000, 1_900, 1_900, 100), { anchor, failedAtTokens: 13_000 });
    expect(indexesOf(planned)).toEqual(['m2.0', 'm3.0']);
    const { savedTokens } = planned;
    expect(planned.events).toEqual([
      { type: 'context:pruned', data: { prunedCount: 2, savedTokens } },
      { type: 'prune:complete', data: { prunedCount: 2, savedTokens, prunedTools: ['read'] } },
    ]);
    expect(planned.contextState).toMatchObject({ anchor: null, failedAtTokens: null, pending: null });
    expect(planned.goesOnWith).toBe('step');
  });

  it('lets a compaction that failed once try again, and one that failed twice wait until the view has grown', () => {
    const anchor = { usage: usageOf({ inputTokens: 9_000 }), messageSeq: 4 };
    const stateAfter = (failedCompactions: number) =>
      plan(outputs(2_000, 2_000, 1_900, 1_900, 100), { anchor, failedAtTokens: 13_000, failedCompactions })
        .contextState;
    expect([1, 2].map((failures) => stateAfter(failures).failedAtTokens)).toEqual([null, 13_000]);
    expect(stateAfter(2).failedCompactions).toBe(2);
  });

  it('that finds nothing says that too, and the last call still measures the view', () => {
    const anchor = { usage: usageOf({ inputTokens: 100 }), messageSeq: 2 };
    const planned = plan(outputs(100), { anchor, pending: asked, failedAtTokens: 9 });
    expect(planned.marks).toEqual([]);
    expect(planned.events).toEqual([
      { type: 'prune:complete', data: { prunedCount: 0, savedTokens: 0, prunedTools: [] } },
    ]);
    const meter = { usedTokens: expect.any(Number), usableTokens: 16_000 };
    expect(planned.contextState).toEqual({ ...stateOf({ anchor, failedAtTokens: 9 }), meter });
  });

  it('prunes what is not due where somebody asked for it, and only then', () => {
    const view = outputs(1_000, 3_900, 50);
    expect(indexesOf(plan(view, { pending: asked }))).toEqual(['m2.0']);
    expect(indexesOf(plan(view))).toEqual([]);
    expect(indexesOf(plan(view, { pending: { ...asked, reason: 'threshold' } }))).toEqual([]);
  });

  it('goes on with a compaction where the view needs one all the same, and names the reason', () => {
    const view = [userOf(1, textOf('x'.repeat(4 * 11_000))), ...outputs(2_000, 3_900, 50).slice(1)];
    const planned = plan(view);
    expect(indexesOf(planned)).toEqual(['m2.0']);
    expect(planned.goesOnWith).toBe('compaction');
    expect(planned.contextState.pending).toEqual({ reason: 'threshold', force: false, stripMedia: false });
    // A run that ends here hands nothing on.
    expect(plan(view, {}, false)).toMatchObject({ goesOnWith: 'step', contextState: { pending: null } });
  });

  it('does not go on with the compaction that its prune has put off', () => {
    const view = [userOf(1, textOf('x'.repeat(4 * 6_000))), ...outputs(4_000, 3_900, 50).slice(1)];
    expect(meter.measure(view, stateOf()).total).toBeGreaterThan(meter.thresholds.compactAtTokens);
    const planned = plan(view);
    expect(planned.goesOnWith).toBe('step');
    expect(meter.measure(withMarks(view, planned.marks), planned.contextState).total).toBeLessThan(
      meter.thresholds.compactAtTokens,
    );
  });

  it('takes images out where a request was refused for its bytes, and lets tool outputs be that are not due', () => {
    const view = [userOf(1, image, image), ...outputs(1_000, 3_900, 50).slice(1), userOf(9, textOf('and now?'))];
    const planned = plan(view, { pending: refusedForBytes });
    expect(indexesOf(planned)).toEqual(['m1.0', 'm1.1']);
    expect(planned.events[0]).toMatchObject({ type: 'context:pruned', data: { prunedCount: 2 } });
    expect(planned.savedTokens).toBeGreaterThan(2_900);
  });

  it('has to clear tool outputs for the bytes where no image is left to go', () => {
    const view = [...outputs(1_000, 3_900, 50), userOf(9, textOf('and now?'))];
    expect(indexesOf(plan(view, { pending: refusedForBytes }))).toEqual(['m2.0']);
  });
});
