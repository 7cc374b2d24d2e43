import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readSummary } from '../../../src/domain/context/compaction/summary-document.ts';
import { DEFAULT_CUTS, NARROW_CUTS, serializeMessages } from '../../../src/domain/context/compaction/summary-input.ts';
import { touchedResources } from '../../../src/domain/context/compaction/touched-files.ts';
import { withMarks } from '../../../src/domain/context/prune/prune-job.ts';
import type { Part, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { outputRef } from '../../../src/domain/transcript/refs.ts';
import { anyWindow, forAnyCompaction, inWire, prune, wireText } from './any-compaction.ts';
import { compacted, countText, plan, sizeOf, thresholdsFor } from './compaction-view.ts';
import { conversation } from './conversation-arbitrary.ts';

function isErrorAt(view: readonly ViewMessage[], { messageId, index }: { messageId: string; index: number }): boolean {
  const part = view.find(({ id }) => id === messageId)?.parts[index];
  return part?.type === 'tool' && part.state === 'error';
}

/** Texts of the errors that no prune has cleared. */
const errorsOf = ({ parts }: ViewMessage): string[] =>
  parts.flatMap((part) =>
    part.type === 'tool' && part.output?.type === 'error-text' && part.marks?.pruned !== true ? part.output.value : [],
  );

describe('what a compaction keeps', () => {
  it('invariant 21: names every file that was touched, and in the request every one that was edited', () => {
    forAnyCompaction(({ view, next }) => {
      const edited = touchedResources(view).filter(({ access }) => access === 'edited');
      expect(new Set(readSummary(next)?.resources)).toEqual(new Set(touchedResources(view)));
      const text = wireText(next);
      for (const { path } of edited) expect(text).toContain(path);
    });
  });

  it('invariant 22: shows the errors of the tail in full', () => {
    forAnyCompaction(({ plan: { tail, marks }, next }) => {
      const text = wireText(next);
      for (const error of tail.flatMap(errorsOf)) expect(text).toContain(inWire(error));
      for (const mark of marks) expect(isErrorAt(tail, mark)).toBe(false);
    });
  });

  it('keeps results that no request has shown the model yet', () => {
    forAnyCompaction(({ view, plan: { tail } }) => {
      const newest = view.findLast(({ role }) => role === 'assistant');
      const isFresh = newest?.parts.some(({ type }) => type === 'tool') === true;
      if (isFresh) expect(tail).toContain(newest);
    });
  });
});

describe('what a prune keeps', () => {
  it('invariant 23: never clears the outputs of protected tools, asked for or not', () => {
    let checked = 0;
    const tools = fc.subarray(['bash', 'edit', 'read', 'write'], { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(conversation, anyWindow, tools, (view, contextWindow, protectedTools) => {
        const { marks } = prune(view, thresholdsFor(contextWindow), protectedTools);
        for (const { messageId, index } of marks) {
          const part = view.find(({ id }) => id === messageId)?.parts[index];
          expect(protectedTools).not.toContain(part?.type === 'tool' ? part.toolName : 'no tool');
          checked++;
        }
      }),
    );
    expect(checked).toBeGreaterThan(0);
  });

  it('invariant 22: clears errors only where everything else is not enough', () => {
    let checked = 0;
    fc.assert(
      fc.property(conversation, anyWindow, (view, contextWindow) => {
        const thresholds = thresholdsFor(contextWindow);
        const { marks } = prune(view, thresholds);
        if (!marks.some((mark) => isErrorAt(view, mark))) return;
        const others = marks.filter((mark) => !isErrorAt(view, mark));
        expect(sizeOf(withMarks(view, others))).toBeGreaterThanOrEqual(thresholds.compactAtTokens);
        checked++;
      }),
    );
    expect(checked).toBeGreaterThan(0);
  });
});

/** Texts that must not get lost, by the kind of text that they are planted in. */
const NEEDLES = {
  constraint: 'Never-touch-port-7741',
  decision: 'We-chose-plan-Q93',
  error: 'ERR-needle-5508',
  id: 'order-id-ZX81-4402',
} as const;
type NeedleClass = keyof typeof NEEDLES;

const at = fc.nat(1_000_000);

/**
 * In a long text of the user or the model, only the two ends are sure to reach a summarizer that gets the text as data.
 */
type Place = 'start' | 'middle' | 'end';
const PLACES: Readonly<Record<NeedleClass, readonly Place[]>> = {
  constraint: ['start', 'end'],
  decision: ['start', 'end'],
  error: ['start', 'middle', 'end'],
  id: ['start', 'middle', 'end'],
};

/** Adds a needle to the text of a part. @returns null for a part that is not of the needle's class */
const PLANT: Readonly<
  Record<NeedleClass, (message: ViewMessage, part: Part, add: (text: string) => string) => Part | null>
> = {
  constraint: ({ role }, part, add) =>
    role === 'user' && part.type === 'text' ? { ...part, text: add(part.text) } : null,
  decision: ({ role }, part, add) =>
    role === 'assistant' && part.type === 'text' ? { ...part, text: add(part.text) } : null,
  error: (_, part, add) =>
    part.type === 'tool' && part.output?.type === 'error-text'
      ? { ...part, output: { ...part.output, value: add(part.output.value) } }
      : null,
  id: (_, part, add) =>
    part.type === 'tool' && part.output?.type === 'text'
      ? { ...part, output: { ...part.output, value: add(part.output.value) } }
      : null,
};

/** Plants a needle into the text of one of the parts that may have it. @returns null if there is no such part */
function planted(
  view: readonly ViewMessage[],
  needle: NeedleClass,
  where: number,
  position: Place,
): { view: ViewMessage[]; seq: number; index: number } | null {
  const add = (text: string): string => {
    const at = { start: 0, middle: Math.floor(text.length / 2), end: text.length }[position];
    return `${text.slice(0, at)} ${NEEDLES[needle]} ${text.slice(at)}`;
  };
  const changed = (message: ViewMessage, part: Part): Part | null => PLANT[needle](message, part, add);
  const places = view.flatMap((message) =>
    message.parts.flatMap((part, index) => (changed(message, part) === null ? [] : [{ seq: message.seq, index }])),
  );
  const place = places[where % Math.max(1, places.length)];
  if (place === undefined) return null;
  const next = view.map((message) => {
    if (message.seq !== place.seq) return message;
    return {
      ...message,
      parts: message.parts.map((part, i) => (i === place.index ? (changed(message, part) ?? part) : part)),
    };
  });
  return { view: next, ...place };
}

describe('a needle', () => {
  it.each(Object.keys(NEEDLES) as NeedleClass[])(
    'invariant 24: %s is in the view, in what the summarizer is given, or recoverable by its id',
    (needle) => {
      let checked = 0;
      fc.assert(
        fc.property(
          conversation,
          anyWindow,
          at,
          fc.constantFrom(...PLACES[needle]),
          fc.boolean(),
          (whole, contextWindow, where, place, isPruned) => {
            const made = planted(whole, needle, where, place);
            if (made === null) return;
            const thresholds = thresholdsFor(contextWindow);
            const view = isPruned ? prune(made.view, thresholds).next : made.view;
            const planned = plan(view, thresholds);
            const next = planned.kind === 'compact' ? compacted(planned, thresholds, 99_999) : view;
            const head = planned.kind === 'compact' ? planned.head : [];
            const said = [DEFAULT_CUTS, NARROW_CUTS].map((cuts) =>
              serializeMessages(head, 4_000, countText, cuts).join('\n'),
            );
            checked++;
            for (const given of said) {
              const seen = wireText(next) + given;
              const isThere = seen.includes(NEEDLES[needle]) || seen.includes(`${outputRef(made.seq, made.index)}`);
              expect(isThere, `${needle} of message ${made.seq}`).toBe(true);
            }
          },
        ),
      );
      expect(checked).toBeGreaterThan(0);
    },
  );
});
