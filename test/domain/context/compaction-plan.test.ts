import { describe, expect, it } from 'vitest';
import type { CompactPlan, PlanInput } from '../../../src/domain/context/compaction/compaction-plan.ts';
import { planInputOf } from '../../../src/domain/context/compaction/plan-input.ts';
import type { Part, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { compacted, plan, sizeOf, thresholdsFor } from './compaction-view.ts';
import { assistantOf, callOf, textOf, usageOf, userOf } from './measure-view.ts';
import { smallMeter, stateOf } from './small-meter.ts';

/** 16k window, 12k usable: target 6k, tail 3k, summary 1.2k tokens. */
const thresholds = thresholdsFor(16_000);
const tokens = (amount: number): string => 'word '.repeat((amount * 4) / 5);
const image: Part = { type: 'file', mediaType: 'image/png', filename: 'a.png', url: 'data:image/png;base64,AAAA' };

/** A task and this many steps of slightly over 500 tokens, numbered from 1. */
const session = (steps: number, first: Part = textOf('The task.')): ViewMessage[] => [
  userOf(1, first),
  ...Array.from({ length: steps }, (_, at) => assistantOf(at + 2, callOf({ path: `f${at}.ts` }, tokens(450)))),
];
const planned = (view: readonly ViewMessage[], rest: Partial<PlanInput> = {}): CompactPlan => {
  const result = plan(view, thresholds, rest);
  if (result.kind !== 'compact') throw new Error(JSON.stringify(result));
  return result;
};
const seqsOf = (messages: readonly ViewMessage[]): number[] => messages.map(({ seq }) => seq);

describe('a plan', () => {
  it('summarizes all but the newest steps', () => {
    const made = planned(session(20));
    expect(made).toMatchObject({ fromSeq: 1, uptoSeq: 16, viewStartSeq: 17, previousSummary: null, marks: [] });
    expect(seqsOf(made.tail)).toEqual([17, 18, 19, 20, 21]);
  });

  it('takes a smaller tail where the view would not come down to its target with the whole one', () => {
    const wide = planned(session(20), { bodyTokens: () => 4_500 });
    expect(wide.tail.length).toBeLessThan(planned(session(20)).tail.length);
    expect(wide.targetTokens).toBe(thresholds.compactToTokens);
  });

  it('shortens the results of the tail where even the smallest one is too large', () => {
    const view = [...session(10), assistantOf(12, callOf({ path: 'big' }, tokens(8_000)))];
    const made = planned(view);
    expect(seqsOf(made.tail)).toEqual([12]);
    expect(made.marks).toMatchObject([{ messageId: 'm12', index: 0 }]);
    expect(sizeOf(compacted(made, thresholds, 13))).toBeLessThanOrEqual(made.targetTokens);
  });

  it('is content with what fits where its target is out of reach', () => {
    const made = planned([...session(12), userOf(14, textOf(tokens(7_000)))]);
    expect(made.targetTokens).toBe(thresholds.usableTokens);
    expect(seqsOf(made.tail)).toContain(14);
  });

  it('is not made where it would gain less than a tenth', () => {
    const view = [userOf(1, textOf('The task.')), assistantOf(2, textOf('ok')), userOf(3, textOf(tokens(4_000)))];
    expect(plan(view, thresholds)).toMatchObject({ kind: 'nothing', reason: 'no_gain' });
  });

  it('names the first message of the chain that a summary before it began with', () => {
    const view = [...compacted(planned(session(20)), thresholds, 22)];
    const more = Array.from({ length: 12 }, (_, at) => assistantOf(23 + at, callOf({}, tokens(450))));
    const made = planned([...view, ...more]);
    expect(made.previousSummary).toMatchObject({ fromSeq: 1, firstUser: { at: 'after_summary', seq: 1 } });
    expect(made.head[0]?.seq).toBe(17);
  });
});

describe('what was compacted just now', () => {
  const next = compacted(planned(session(20)), thresholds, 22);

  it('is not compacted again before a step has used it', () => {
    expect(plan(next, thresholds)).toMatchObject({ kind: 'nothing', reason: 'nothing_new' });
  });

  it('may be once more where the provider refused it all the same', () => {
    const again = planned(next, { mayRepeat: true });
    expect(again.tail.length).toBeLessThan(5);
  });
});

describe('what the user said', () => {
  it('last stands after the summary where the tail does not hold it', () => {
    const made = planned(session(20));
    expect(made.carried).toEqual([textOf('The task.')]);
    expect(made.firstUser).toEqual({ at: 'after_summary', seq: 1 });
  });

  it('first stands in the summary, and last in the tail', () => {
    const made = planned([...session(20), assistantOf(22, textOf('Done.')), userOf(23, textOf('Now the tests.'))]);
    expect(made.carried).toEqual([]);
    expect(made.firstUser).toEqual({ at: 'summary', seq: 1, text: 'The task.' });
    expect(seqsOf(made.tail)).toContain(23);
  });

  it('first stays whole up to a quarter of what a compaction aims at, and names its id where it is cut', () => {
    const limit = thresholds.compactToTokens / 4;
    const whenFirstIs = (text: string) =>
      planned([...session(20, textOf(text)), assistantOf(22, textOf('Done.')), userOf(23, textOf('Now the tests.'))]);
    const whole = tokens(limit);
    expect(whenFirstIs(whole).firstUser).toEqual({ at: 'summary', seq: 1, text: whole });
    const { firstUser } = whenFirstIs(`BEGIN ${tokens(limit)} END`);
    const text = firstUser?.at === 'summary' ? firstUser.text : '';
    expect(text.length / 4).toBeLessThanOrEqual(limit);
    expect(text).toMatch(
      /^BEGIN [\s\S]* characters cut out: read it whole with read_tool_output, id msg_1\][\s\S]* END$/,
    );
  });

  it('first is cut further for a smaller model, and goes on telling how much it was', () => {
    const book = `BEGIN ${tokens(thresholds.compactToTokens)} END`;
    const view = [...session(20, textOf(book)), assistantOf(22, textOf('Done.')), userOf(23, textOf('Now the tests.'))];
    const first = planned(view);
    const more = Array.from({ length: 20 }, (_, at) => assistantOf(25 + at, callOf({}, tokens(450))));
    const small = thresholdsFor(8_000);
    const next = plan([...compacted(first, thresholds, 24), ...more], small);
    const text = next.kind === 'compact' && next.firstUser?.at === 'summary' ? next.firstUser.text : '';
    expect(text.length / 4).toBeLessThanOrEqual(small.compactToTokens / 4);
    expect(text.match(/cut out/g)).toHaveLength(1);
    expect(text).toContain(` of ${book.length} characters cut out: read it whole`);
    expect(text).toMatch(/^BEGIN [\s\S]* END$/);
  });

  it('last keeps the numbers of the queued messages that it was drained from', () => {
    const drained = [{ ...textOf('What is this?'), queuedNo: 1 } as Part, { ...image, queuedNo: 2 }];
    const asked = session(20, textOf('What is this?')).with(0, userOf(1, ...drained));
    expect(planned(asked).carried).toEqual(drained);
    expect(planned(asked, { stripMedia: true }).carried).toMatchObject([
      { queuedNo: 1 },
      { type: 'text', queuedNo: 2 },
    ]);
  });

  it('last keeps its image, unless media have to go', () => {
    const view = session(20, textOf('What is this?'));
    const asked = view.with(0, userOf(1, textOf('What is this?'), image));
    expect(planned(asked).carried).toContainEqual(image);
    const stripped = planned(asked, { stripMedia: true }).carried;
    expect(stripped).not.toContainEqual(image);
    expect(JSON.stringify(stripped)).toContain('a.png');
  });
});

describe('what can not be made to fit', () => {
  it.each<[string, string, ViewMessage[], Partial<PlanInput>]>([
    ['the instructions and tools', 'overhead', session(3), { overheadTokens: 12_001 }],
    ['what the user said last', 'user_message', [...session(3), userOf(9, textOf(tokens(12_500)))], {}],
    [
      'a step that says too much',
      'step',
      [...session(3), assistantOf(9, textOf(tokens(13_000)), callOf({}, 'ok'))],
      {},
    ],
  ])('is told by its name: %s', (_which, what, view, rest) => {
    expect(plan(view, thresholds, rest)).toMatchObject({ kind: 'too_large', what, usableTokens: 12_000 });
  });

  it('is a batch of so many results that even a few lines of each are too much', () => {
    const batch = Array.from({ length: 150 }, () => callOf({}, tokens(300)));
    const planned = plan([...session(3), assistantOf(9, ...batch)], thresholds);
    expect(planned).toMatchObject({ kind: 'too_large', what: 'tool_result', messageSeq: 9 });
  });

  it('is what the user said before the last compaction, where nothing came after it', () => {
    const view = compacted(planned(session(20)), thresholds, 22);
    const [summary, ...tail] = view;
    const huge = { ...(summary as ViewMessage), parts: [...(summary?.parts ?? []), textOf(tokens(13_000))] };
    expect(plan([huge, ...tail], thresholds)).toMatchObject({
      kind: 'too_large',
      what: 'user_message',
      messageSeq: 22,
    });
  });
});

describe('what a plan is made from', () => {
  it('counts without an anchor and with the ratio of the session', () => {
    const meter = smallMeter({}, { instructions: 'x'.repeat(4_000) });
    const calibration = { prior: 1, margin: 1, realTokens: 6_000, estimatedTokens: 3_000 };
    const anchor = { usage: usageOf({ inputTokens: 9_000 }), messageSeq: 2 };
    const view = session(2);
    const input = planInputOf(meter, stateOf({ calibration, anchor }), view, {
      reason: 'threshold',
      stripMedia: false,
    });
    expect(input.overheadTokens).toBe(2_000);
    expect(input.countText('x'.repeat(400))).toBe(200);
    expect(input.tokensOf(userOf(1, textOf('x'.repeat(400))))).toBe(208);
  });

  it('lets only an overflow compact what was compacted just now', () => {
    const of = (reason: 'overflow' | 'threshold') =>
      planInputOf(smallMeter(), stateOf(), [], { reason, stripMedia: false }).mayRepeat;
    expect([of('overflow'), of('threshold')]).toEqual([true, false]);
  });

  it('takes along what the agent wants to keep', () => {
    const meter = smallMeter({ compaction: { options: { keepRecentMessages: 7, preserveLastNTurns: 2 } } });
    const input = planInputOf(meter, stateOf(), [], { reason: 'overflow', stripMedia: true });
    expect(input).toMatchObject({ keepRecentMessages: 7, preserveLastNTurns: 2, stripMedia: true });
  });
});
