import { describe, expect, it } from 'vitest';
import { afterAnswer, type WholeAnswer } from '../../../src/domain/context/after-answer.ts';
import { UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import type { Part } from '../../../src/domain/transcript/message.ts';
import { assistantOf, callOf, textOf, usageOf, userOf } from './measure-view.ts';
import { measured, smallMeter, stateOf, worthOf } from './small-meter.ts';

const place = { runId: 'run-1', stepNo: 4 };
const view = [userOf(1, textOf('Go on.'))];
const tokens = (amount: number): string => 'x'.repeat(amount * 4);

const answer = (rest: Partial<WholeAnswer> = {}) =>
  afterAnswer({
    meter: smallMeter(),
    state: stateOf(),
    place,
    view,
    measurement: measured(5_000),
    maxOutputTokens: 4_000,
    isWindowBound: false,
    message: assistantOf(2, textOf('Done.')),
    usage: usageOf({ inputTokens: 5_000, outputTokens: 10 }),
    finishReason: 'stop',
    rawFinishReason: null,
    toolCalls: 0,
    worth: () => worthOf(),
    ...rest,
  });
/** An answer whose tool results have these token counts. */
const withResults = (...results: number[]): Partial<WholeAnswer> => ({
  message: assistantOf(2, ...results.map((amount): Part => callOf({ path: 'a.ts' }, tokens(amount)))),
  toolCalls: results.length,
});

describe('an answer that fits', () => {
  it('is the new anchor, and nothing comes before the next step', () => {
    const after = answer();
    expect(after.contextState.anchor).toEqual({
      usage: usageOf({ inputTokens: 5_000, outputTokens: 10 }),
      messageSeq: 2,
    });
    expect(after).toMatchObject({ lesson: null, isPrunable: false, contextState: { pending: null } });
    expect(after).not.toHaveProperty('before');
  });

  it('settles what was pending: the compaction was for the step that is done', () => {
    const pending = { reason: 'overflow', force: true, stripMedia: false } as const;
    expect(answer({ state: stateOf({ pending }) }).contextState.pending).toBe(null);
  });
});

describe('results that the next request has to hold', () => {
  it('lead to a prune where that is worth its while', () => {
    const after = answer({ ...withResults(4_000), worth: () => worthOf({ prune: true }) });
    expect(after).toMatchObject({ before: 'prune', isPrunable: true, contextState: { pending: { force: false } } });
  });

  it('lead to a compaction from 80 % on', () => {
    const after = answer(withResults(8_000));
    expect(after).toMatchObject({
      before: 'compaction',
      contextState: { pending: { reason: 'threshold', force: false } },
    });
  });

  it('are the reason of a compaction that must come: the request would not fit with them', () => {
    const after = answer(withResults(6_000, 6_000));
    expect(after).toMatchObject({
      before: 'compaction',
      contextState: { pending: { reason: 'tool_results', force: true } },
    });
  });

  it('lead to nothing with the strategy manual: the next step says that it is over', () => {
    const after = answer({
      ...withResults(20_000),
      meter: smallMeter({ compaction: { strategy: 'manual' } }),
      worth: () => worthOf(),
    });
    expect(after).not.toHaveProperty('before');
    expect(after).not.toHaveProperty('exhausted');
  });
});

describe('an answer that the window cut off', () => {
  const cut = { finishReason: 'length', isWindowBound: true } as const;

  it('goes on after a compaction', () => {
    expect(answer(cut)).toMatchObject({
      before: 'compaction',
      isUnfinished: true,
      contextState: { pending: { reason: 'stream', force: true } },
    });
  });

  it('is finished where it was cut by its own maximum, not by the window', () => {
    expect(answer({ ...cut, isWindowBound: false })).not.toHaveProperty('isUnfinished');
  });

  it('with calls goes on as every answer with calls does', () => {
    expect(answer({ ...cut, ...withResults(10) })).not.toHaveProperty('isUnfinished');
  });

  it('stays as it is with the strategy manual', () => {
    expect(answer({ ...cut, meter: smallMeter({ compaction: { strategy: 'manual' } }) })).not.toHaveProperty(
      'isUnfinished',
    );
  });

  it('is good as far as it came where the provider says so itself', () => {
    expect(answer({ rawFinishReason: 'model_context_window_exceeded', finishReason: 'length' })).toMatchObject({
      before: 'compaction',
      isUnfinished: true,
      contextState: { anchor: null, pending: { reason: 'stream' } },
    });
  });
});

describe('a request that the provider did not take whole', () => {
  const noAnswer = { usage: usageOf({ inputTokens: 20_000 }), finishReason: 'length' } as const;
  /** 10 000 tokens passed before, and the request must have had as many again; the provider counted only 10 500. */
  const grown = [
    userOf(1, textOf('Go on.')),
    assistantOf(2, textOf('Reading.')),
    userOf(3, textOf('word '.repeat(9_000))),
  ];
  const anchor = { usage: usageOf({ inputTokens: 10_000, outputTokens: 100 }), messageSeq: 2 };
  const truncated = {
    view: grown,
    state: stateOf({ anchor }),
    message: assistantOf(4, textOf('What?')),
    usage: usageOf({ inputTokens: 10_500, outputTokens: 5 }),
  };

  it('is taken again after a compaction, and its answer does not count', () => {
    expect(answer(noAnswer)).toMatchObject({
      dropAnswer: true,
      contextState: { anchor: null, overflow: { ...place, count: 1 }, pending: { reason: 'overflow', force: true } },
    });
  });

  it('ends the run the third time', () => {
    const state = stateOf({ overflow: { ...place, count: 2 } });
    const after = answer({ ...noAnswer, state });
    expect(after.exhausted?.code).toBe('context_exhausted');
    expect(after).not.toHaveProperty('dropAnswer');
  });

  it('that was cut without a word is taken again too, and teaches where it was cut', () => {
    expect(answer(truncated)).toMatchObject({
      dropAnswer: true,
      lesson: { by: 'told', limits: { inputLimit: 10_500 } },
    });
  });

  it('keeps its answer where calls have run: their effects can not be taken back', () => {
    const after = answer({ ...truncated, toolCalls: 1 });
    expect(after).not.toHaveProperty('dropAnswer');
    expect(after).toMatchObject({ before: 'compaction', contextState: { anchor: null } });
  });

  it('proves nothing of a window that is a guess', () => {
    const meter = smallMeter({}, { entry: { ...UNKNOWN_MODEL, contextWindow: 20_000, maxOutput: 4_000 } });
    expect(answer({ ...noAnswer, meter })).not.toHaveProperty('dropAnswer');
  });

  it('that was larger than the window, and was answered all the same, counts: compact before the next step', () => {
    const after = answer({ usage: usageOf({ inputTokens: 20_001, outputTokens: 9 }) });
    expect(after).toMatchObject({ before: 'compaction', contextState: { anchor: null } });
    expect(after).not.toHaveProperty('dropAnswer');
  });

  it('ends the run with the strategy manual only where there is no answer to keep', () => {
    const meter = smallMeter({ compaction: { strategy: 'manual' } });
    expect(answer({ ...noAnswer, meter }).exhausted?.code).toBe('context_exhausted');
    const kept = answer({ meter, usage: usageOf({ inputTokens: 20_001, outputTokens: 9 }) });
    expect(kept).not.toHaveProperty('exhausted');
    expect(kept).not.toHaveProperty('before');
  });
});
