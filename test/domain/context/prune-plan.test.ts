import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { outlookOf } from '../../../src/domain/context/expected-cost.ts';
import type { InputPrices } from '../../../src/domain/context/limits/cost.ts';
import { contextPolicySchema } from '../../../src/domain/context/limits/policy.ts';
import { type Thresholds, thresholdsOf } from '../../../src/domain/context/limits/thresholds.ts';
import { estimateMessages } from '../../../src/domain/context/meter/measure.ts';
import { totalOf } from '../../../src/domain/context/meter/message-tokens.ts';
import { estimateText } from '../../../src/domain/context/meter/tokens.ts';
import { withMarks } from '../../../src/domain/context/prune/prune-job.ts';
import {
  isPruneWorthwhile,
  type PlannedMark,
  type PruneInput,
  planMediaStrip,
  planPrune,
} from '../../../src/domain/context/prune/prune-plan.ts';
import { toModelMessages } from '../../../src/domain/model/model-messages.ts';
import type { Part, ToolPart, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { anyView } from '../view-arbitrary.ts';
import { assistantOf, callOf, MODEL, textOf, userOf } from './measure-view.ts';

/** A token is four characters, so that sizes can be read off the tests. */
const count = (text: string): number => Math.ceil(text.length / 4);
/** protect 40k of the last 2 turns, minimum 20k (and 16.8k by its share), from 84k on, compaction from 134.4k on */
const thresholds = thresholdsOf(168_000, 200_000);
const policy = contextPolicySchema.parse({}).prune;

const tokens = (amount: number): string => 'x'.repeat(amount * 4);
const output = (amount: number, rest: Partial<ToolPart> = {}): Part =>
  callOf({ path: 'a.ts' }, tokens(amount), { toolName: 'read', ...rest });
const failure = (amount: number): Part =>
  output(amount, { state: 'error', output: { type: 'error-text', value: tokens(amount) } });

/** User turn, then one step per list of parts; numbered from 1. */
function turn(...steps: Part[][]): (seq: number) => ViewMessage[] {
  return (seq) => [userOf(seq, textOf('Go on.')), ...steps.map((parts, at) => assistantOf(seq + at + 1, ...parts))];
}
function viewOf(...turns: ReturnType<typeof turn>[]): ViewMessage[] {
  const view: ViewMessage[] = [];
  for (const next of turns) view.push(...next(view.length + 1));
  return view;
}

/** Prices without a cache, at which every prune pays. */
const uncached: InputPrices = { read: 1, write: 1, output: 5 };
type Case = Partial<Omit<PruneInput, 'outlook' | 'thresholds'>> &
  Readonly<{ usedTokens?: number; prices?: InputPrices; thresholds?: Thresholds }>;
function inputOf(view: readonly ViewMessage[], { usedTokens, prices = uncached, ...rest }: Case = {}): PruneInput {
  const input = { view, count, ratio: 1, thresholds, policy, ...rest };
  const known = { usedTokens: usedTokens ?? input.thresholds.pruneAtTokens, overheadTokens: 0, prices };
  return { ...input, outlook: outlookOf(view, { ...known, thresholds: input.thresholds }) };
}
const plan = (view: readonly ViewMessage[], rest: Case = {}) => planPrune(inputOf(view, rest));

/** The places of the cleared parts, as `seq.index`. */
const cleared = (view: readonly ViewMessage[], rest: Case = {}): string[] => {
  const planned = plan(view, rest);
  return planned.kind === 'nothing' ? [] : planned.marks.map((mark) => placeOf(view, mark));
};
const placeOf = (view: readonly ViewMessage[], { messageId, index }: PlannedMark): string =>
  `${view.find((message) => message.id === messageId)?.seq}.${index}`;

const tokensOf = (view: readonly ViewMessage[]): number => totalOf(estimateMessages(view, count, MODEL));

/** Five steps, of which four fit into the protected tokens together with their frames. */
const fiveSteps = [1, 2, 3, 4, 5].map(() => [output(9_900)]);

describe('a prune', () => {
  it('clears what is older than the newest 40k tokens of outputs, and says what it frees', () => {
    const view = viewOf(turn(...fiveSteps, ...fiveSteps.slice(0, 3), [output(100)]));
    const planned = plan(view);
    expect(cleared(view)).toEqual(['2.0', '3.0', '4.0', '5.0']);
    if (planned.kind === 'nothing') throw new Error(planned.reason);
    expect(planned).toMatchObject({ prunedCount: 4, prunedTools: ['read'] });
    expect(planned.marks[0]).toMatchObject({ pruned: true, originalTokens: expect.any(Number) });
    expect(planned.savedTokens).toBe(tokensOf(view) - tokensOf(withMarks(view, planned.marks)));
    expect(planned.savedTokens).toBeGreaterThan(39_000);
  });

  it('counts in real tokens: a ratio of 2 protects half as much text and frees twice as much', () => {
    const view = viewOf(turn(...fiveSteps, [output(100)]));
    expect(cleared(view, { ratio: 2 })).toEqual(['2.0', '3.0', '4.0']);
    expect(cleared(view, { ratio: 1 })).toEqual([]);
  });

  it('is not due below half of what can be used', () => {
    const view = viewOf(turn(...fiveSteps, ...fiveSteps));
    expect(plan(view, { usedTokens: thresholds.pruneAtTokens - 1 })).toEqual({ kind: 'nothing', reason: 'not_due' });
    expect(plan(view).kind).toBe('prune');
  });

  // Field bug: opencode#32515.
  it('that would free less than the minimum does not break the cache for it', () => {
    const view = viewOf(turn([output(10_000)], [output(6_800)], ...fiveSteps.slice(0, 4), [output(10)]));
    expect(plan(view)).toEqual({ kind: 'nothing', reason: 'too_little' });
    expect(plan(viewOf(turn([output(10_000)], [output(6_900)], ...fiveSteps.slice(0, 4), [output(10)]))).kind).toBe(
      'prune',
    );
  });

  it('protects at most the last two user turns, however small they are', () => {
    const old = turn([output(9_000)], [output(9_000)], [textOf('Done.')]);
    const view = viewOf(old, turn([output(500)], [textOf('Done.')]), turn([output(500)], [textOf('Done.')]));
    expect(cleared(view)).toEqual(['2.0', '3.0']);
    expect(cleared(viewOf(old, turn([output(500)], [textOf('Done.')])))).toEqual([]);
  });

  it('takes user messages in a row for one turn', () => {
    const view = viewOf(turn([output(9_000)], [output(9_000)], [textOf('Done.')]), turn(), turn(), turn());
    expect(cleared(view)).toEqual([]);
  });

  it('works inside a single turn of 500 steps', () => {
    const view = viewOf(turn(...Array.from({ length: 500 }, () => [output(400)])));
    expect(cleared(view).length).toBeGreaterThan(390);
    expect(cleared(view)).not.toContain('500.0');
  });

  it('never clears a result that no model call has read yet: 8 parallel ones of 30k', () => {
    const batch = Array.from({ length: 8 }, () => output(30_000));
    const view = viewOf(turn([output(20_000)], batch));
    expect(cleared(view)).toEqual(['2.0']);
    expect(cleared(view, { force: true })).toEqual(['2.0']);
    // The answer has read the batch. Now its newest results are as protected as any others.
    expect(cleared([...view, assistantOf(4, textOf('Done.'))]).length).toBe(8);
  });

  it('leaves protected tools alone, and they take nothing of the protection', () => {
    const skill = output(10_000, { toolName: 'skill' });
    const view = viewOf(turn([skill], ...fiveSteps.slice(0, 4), [skill], [skill], [skill], [output(10)]));
    const protectedTools = { policy: { ...policy, protectedTools: ['skill'] } };
    expect(cleared(view, protectedTools)).toEqual([]);
    expect(cleared(viewOf(turn([skill], ...fiveSteps, ...fiveSteps, [skill])), protectedTools)).not.toContain('2.0');
    expect(cleared(view)).toContain('2.0');
  });

  it('stops at the summary', () => {
    const summary = {
      ...userOf(50, { type: 'compaction', text: 'Summary.' }),
      parts: [{ type: 'compaction' as const, text: 'S' }],
    };
    const before = [userOf(1, textOf('go')), assistantOf(2, output(30_000)), assistantOf(3, output(30_000))];
    const after = [4, 5, 6].map((seq) => assistantOf(seq, output(19_000)));
    expect(cleared([...before, summary, ...after])).toEqual(['4.0']);
  });

  it('clears long texts in the input of old calls: sessions of file writes have short outputs', () => {
    const write = (): Part[] => [callOf({ path: 'a.ts', content: tokens(10_000) }, 'ok', { toolName: 'write' })];
    const view = viewOf(turn(...Array.from({ length: 8 }, write)));
    expect(cleared(view)).toEqual(['2.0', '3.0', '4.0', '5.0', '6.0'].slice(0, cleared(view).length));
    expect(cleared(view).length).toBeGreaterThanOrEqual(4);
    const planned = plan(view);
    const shown = JSON.stringify(
      toModelMessages(withMarks(view, planned.kind === 'prune' ? planned.marks : []), { model: MODEL }),
    );
    expect(shown.split('[Old tool input cleared]').length - 1).toBe(cleared(view).length);
    expect(shown.split('"path":"a.ts"').length - 1).toBe(8);
  });

  it('clears nothing that would save nothing', () => {
    const small = Array.from({ length: 60 }, () => [output(10)]);
    const view = viewOf(turn(...small, ...fiveSteps, ...fiveSteps, [output(10)]));
    expect(cleared(view).every((place) => Number.parseInt(place, 10) > 61)).toBe(true);
    expect(plan(viewOf(turn(...small)), { force: true })).toEqual({ kind: 'nothing', reason: 'nothing_prunable' });
  });

  it.each(['pending', 'awaiting_approval', 'running', 'unknown'] as const)(
    'never clears a call that is %s',
    (state) => {
      const open = output(30_000, { state });
      expect(cleared(viewOf(turn([open], [open], ...fiveSteps)), { force: true })).not.toContain('2.0');
    },
  );

  it('leaves what the provider ran itself in the form of the provider', () => {
    const searched = output(30_000, {
      providerExecuted: true,
      output: { type: 'json', value: { found: tokens(30_000) } },
    });
    expect(cleared(viewOf(turn([searched], ...fiveSteps, ...fiveSteps)))).not.toContain('2.0');
  });

  it('keeps errors while clearing the rest is enough to put a compaction off, and takes them last', () => {
    const view = viewOf(turn([failure(3_000)], ...fiveSteps, ...fiveSteps, [output(10)]));
    const planned = plan(view, { usedTokens: 120_000 });
    expect(cleared(view, { usedTokens: 120_000 })).not.toContain('2.0');
    const used = thresholds.compactAtTokens + (planned.kind === 'prune' ? planned.savedTokens : 0);
    expect(cleared(view, { usedTokens: used })).toContain('2.0');
    expect(cleared(view, { usedTokens: used - 1 })).not.toContain('2.0');
  });

  it('never clears an error of the protected tail', () => {
    const view = viewOf(turn(...fiveSteps, ...fiveSteps, [failure(3_000)], [output(10)]));
    expect(cleared(view, { usedTokens: 400_000 })).not.toContain('12.0');
  });

  it('that somebody asked for need not be due, enabled or worth its while; what is protected stays', () => {
    const view = viewOf(turn([output(1_000)], ...fiveSteps.slice(0, 4)));
    const asked = { force: true, usedTokens: 0, policy: { ...policy, enabled: false } };
    expect(cleared(view, asked)).toEqual(['2.0']);
    expect(plan(view, { ...asked, force: false })).toEqual({ kind: 'nothing', reason: 'disabled' });
  });

  it('has sane limits in an 8k window: it protects a quarter of it and needs a tenth', () => {
    const small = thresholdsOf(6_000, 8_000);
    const view = viewOf(turn([output(600)], [output(600)], [output(600)], [output(600)], [output(50)]));
    expect(cleared(view, { thresholds: small, usedTokens: 3_000 })).toEqual(['2.0', '3.0']);
  });
});

describe('by the prices of a cache', () => {
  const cached = { prices: { read: 0.1, write: 1.25, output: 5 } };
  /** This many short steps, then 10 with large outputs, of which the newest are protected. */
  const sessionOf = (steps: number): ViewMessage[] =>
    viewOf(turn(...Array.from({ length: steps }, () => [output(10)]), ...fiveSteps, ...fiveSteps, [output(10)]));
  const reasonAt = (steps: number, rest: Case = {}): string => {
    const planned = plan(sessionOf(steps), { ...cached, ...rest });
    return planned.kind === 'prune' ? 'prune' : planned.reason;
  };

  it('a session that has gone on for long is cleared, a short one is left to the cache', () => {
    expect(reasonAt(0)).toBe('does_not_pay');
    expect(reasonAt(3)).toBe('does_not_pay');
    expect(reasonAt(60)).toBe('prune');
  });

  it('the dearer what is cached, the sooner it pays', () => {
    expect(reasonAt(3, { prices: { read: 0.5, write: 1, output: 5 } })).toBe('prune');
    expect(reasonAt(0, { prices: uncached })).toBe('prune');
  });

  it('whatever it costs, a prune goes before a compaction that would be due without it', () => {
    const flat = thresholdsOf(168_000, 200_000, { compactAt: 0.55 });
    expect(reasonAt(0, { thresholds: flat, usedTokens: flat.compactAtTokens })).toBe('prune');
    expect(reasonAt(0, { usedTokens: flat.compactAtTokens })).toBe('does_not_pay');
    expect(reasonAt(0, { usedTokens: thresholds.compactByTokens })).toBe('prune');
  });

  it('steps count that a summary stands for', () => {
    const compacted = sessionOf(0).map((message) => ({ ...message, seq: message.seq + 60 }));
    expect(plan(compacted, cached).kind).toBe('prune');
  });
});

it('to tell whether a prune is worthwhile, no more of a long view is read than the newest that decide it', () => {
  const view = viewOf(turn(...Array.from({ length: 1_000 }, () => [output(900)])));
  let readTokens = 0;
  const counting = (text: string): number => {
    readTokens += count(text);
    return count(text);
  };
  expect(isPruneWorthwhile(inputOf(view, { count: counting }))).toBe(true);
  expect(readTokens).toBeLessThan(1.2 * (thresholds.pruneProtectTokens + thresholds.pruneMinimumTokens));
});

/** A window of 20k, so that a session of any shape is soon full. */
const narrow = thresholdsOf(16_800, 20_000);
/** As in the recorded sessions most outputs are small and a few are huge. */
const size = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 100 }) },
  { weight: 3, arbitrary: fc.integer({ min: 100, max: 600 }) },
  { weight: 1, arbitrary: fc.integer({ min: 600, max: 4_000 }) },
);
const anyUsed = fc.integer({ min: narrow.pruneAtTokens, max: 30_000 });
const planNarrow = (view: readonly ViewMessage[], rest: Case = {}) =>
  plan(view, { thresholds: narrow, usedTokens: narrow.pruneAtTokens, ...rest });
const anyCall: fc.Arbitrary<Part> = fc
  .record({
    amount: size,
    input: size,
    toolName: fc.constantFrom('read', 'bash', 'write', 'skill'),
    state: fc.constantFrom('completed' as const, 'completed' as const, 'completed' as const, 'error' as const),
  })
  .map(({ amount, input, toolName, state }) => ({
    ...callOf({ path: 'src/a.ts', content: tokens(input) }, tokens(amount), { toolName, state }),
    output: { type: state === 'error' ? ('error-text' as const) : ('text' as const), value: tokens(amount) },
  }));
const anySteps = fc.array(fc.array(anyCall, { minLength: 1, maxLength: 4 }), { maxLength: 25 });
const anySession = fc
  .array(anySteps, { minLength: 1, maxLength: 4 })
  .map((turns) => viewOf(...turns.map((steps) => turn(...steps, [textOf('Done.')]))));
const anyRatio = fc.double({ min: 0.5, max: 4, noNaN: true });
const anyPrices = fc
  .constantFrom({ read: 1, write: 1 }, { read: 0.5, write: 1 }, { read: 0.1, write: 1.25 })
  .map((cache): InputPrices => ({ ...cache, output: 5 }));
const protectSkill = { policy: { ...policy, protectedTools: ['skill'] } };

const toolOf = (part: Part): string | null => (part.type === 'tool' ? part.toolName : null);

describe('of any session', () => {
  // Field bugs: senpi PR #425 toggled marks from request to request; jcode#175 piled them up.
  it('a second prune finds nothing: prune(prune(x)) = prune(x)', () => {
    fc.assert(
      fc.property(anySession, anyUsed, fc.boolean(), (view, usedTokens, force) => {
        const first = planNarrow(view, { usedTokens, force });
        if (first.kind === 'nothing') return;
        const after = withMarks(view, first.marks);
        expect(planNarrow(after, { usedTokens: usedTokens - first.savedTokens, force })).toMatchObject({
          kind: 'nothing',
        });
      }),
    );
  });

  it('what a prune frees is what the view loses, at least the minimum, and every mark saves something', () => {
    fc.assert(
      fc.property(anySession, (view) => {
        const planned = planNarrow(view);
        if (planned.kind === 'nothing') return;
        expect(planned.savedTokens).toBe(tokensOf(view) - tokensOf(withMarks(view, planned.marks)));
        expect(planned.savedTokens).toBeGreaterThanOrEqual(narrow.pruneMinimumTokens);
        for (const mark of planned.marks) expect(tokensOf(withMarks(view, [mark]))).toBeLessThan(tokensOf(view));
      }),
    );
  });

  it('is worth a prune exactly where there is one to plan', () => {
    fc.assert(
      fc.property(anySession, anyUsed, fc.boolean(), anyRatio, anyPrices, (...drawn) => {
        const [view, drawnUsed, force, ratio, prices] = drawn;
        // Errors do not count while no compaction is near, so different amounts of used tokens are tried.
        for (const usedTokens of [narrow.pruneAtTokens - 1, narrow.pruneAtTokens, drawnUsed]) {
          const input = inputOf(view, { ratio, thresholds: narrow, usedTokens, force, prices });
          expect(isPruneWorthwhile(input)).toBe(planPrune(input).kind === 'prune');
        }
      }),
    );
  });

  it('protected tools and the protected tail stay, errors included', () => {
    fc.assert(
      fc.property(anySession, anyUsed, (view, usedTokens) => {
        const places = new Set(cleared(view, { ...protectSkill, thresholds: narrow, usedTokens }));
        const parts = view.flatMap((message) =>
          message.parts.map((part, index) => ({ part, seq: message.seq, place: `${message.seq}.${index}` })),
        );
        expect(parts.some(({ part, place }) => toolOf(part) === 'skill' && places.has(place))).toBe(false);
        // Every cleared part has two user turns behind it, or more than the protected tokens from its beginning on.
        parts.forEach(({ place, seq }, at) => {
          if (!places.has(place)) return;
          const behind = parts.slice(at).filter(({ part }) => part.type === 'tool' && toolOf(part) !== 'skill');
          const tokensBehind = behind.reduce((sum, { part }) => sum + tokensOf([assistantOf(1, part)]), 0);
          const turnsBehind = view.filter((message) => message.role === 'user' && message.seq > seq).length;
          expect(turnsBehind >= 2 || tokensBehind > narrow.pruneProtectTokens).toBe(true);
        });
      }),
    );
  });

  it('the next prune needs the minimum again: prunes are never more than what came in allows', () => {
    fc.assert(
      fc.property(anySteps, (steps) => {
        let view: readonly ViewMessage[] = viewOf(turn());
        let prunes = 0;
        let savedTokens = 0;
        for (const parts of steps) {
          view = [...view, assistantOf(view.length + 1, ...parts)];
          const planned = planNarrow(view);
          if (planned.kind === 'nothing') continue;
          prunes++;
          savedTokens += planned.savedTokens;
          view = withMarks(view, planned.marks);
        }
        const content = tokensOf(viewOf(turn(...steps)));
        expect(savedTokens).toBeLessThan(content);
        expect(prunes).toBeLessThanOrEqual(Math.floor(content / narrow.pruneMinimumTokens));
      }),
    );
  });

  it('the plan depends on nothing but its input, which stays as it was', () => {
    fc.assert(
      fc.property(anyView, (view) => {
        const before = JSON.stringify(view);
        const first = plan(view, { count: estimateText, force: true });
        expect(plan(view, { count: estimateText, force: true })).toEqual(first);
        expect(JSON.stringify(view)).toBe(before);
      }),
    );
  });
});

describe('taking media out of the view', () => {
  const image = (name: string): Part => ({
    type: 'file',
    mediaType: 'image/png',
    filename: name,
    url: 'data:image/png;base64,iVBORw0KGgo=',
  });
  const strip = (view: readonly ViewMessage[]) => planMediaStrip({ view, count, ratio: 1 });
  const view = [
    userOf(1, textOf('look'), image('a')),
    assistantOf(2, textOf('ok')),
    userOf(3, image('b')),
    userOf(4, image('c')),
  ];

  it('takes the oldest first and leaves what the last user message brought', () => {
    const planned = strip(view);
    expect(planned.marks.map((mark) => placeOf(view, mark))).toEqual(['1.1', '3.0']);
    expect(planned).toMatchObject({ strippedCount: 2, marks: [{ mediaStripped: true, originalTokens: 1_504 }, {}] });
    expect(planned.savedTokens).toBe(tokensOf(view) - tokensOf(withMarks(view, planned.marks)));
  });

  it('takes that too where nothing else can go, and then is done', () => {
    const once = withMarks(view, strip(view).marks);
    expect(strip(once).marks.map((mark) => placeOf(view, mark))).toEqual(['4.0']);
    expect(strip(withMarks(once, strip(once).marks))).toEqual({ marks: [], strippedCount: 0, savedTokens: 0 });
  });

  it('leaves what is not sent anyway: files of the assistant and those that are shown as a text', () => {
    const unsent: Part = { type: 'file', mediaType: 'text/csv', url: 'data:text/csv;base64,YSxi' };
    expect(strip([userOf(1, unsent), assistantOf(2, image('a')), userOf(3, textOf('?'))]).marks).toEqual([]);
    const stored: Part = { type: 'file', mediaType: 'image/png', url: '@blob:1' };
    expect(strip([userOf(1, stored), userOf(2, textOf('?'))]).marks).toHaveLength(1);
  });
});
