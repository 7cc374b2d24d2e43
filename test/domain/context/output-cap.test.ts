import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { thresholdsOf } from '../../../src/domain/context/limits/thresholds.ts';
import { estimateText } from '../../../src/domain/context/meter/tokens.ts';
import {
  afterResult,
  capText,
  countAnyLength,
  MIN_OUTPUT_TOKENS,
  outputCapOf,
  type ToolBatch,
} from '../../../src/domain/context/prune/output-cap.ts';
import { outputRef, parseRef } from '../../../src/domain/transcript/refs.ts';

const HINT = ': read them with read_tool_output, id out_12_3';
const NOTICE = /\n… \[(\d+) of (\d+) characters cut out: read them with read_tool_output, id out_12_3\] …\n/;
const ANY_CHARS = Number.MAX_SAFE_INTEGER;

const piece = fc.oneof(
  fc.constantFrom('some words of prose, ', '0123456789', '設計書を読む', '😀', 'aGVsbG8gd29ybGQ=', '\n', '          '),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 8 }),
);
/** Texts whose tokens are spread unevenly: the head may be prose and the tail digits. */
const longText = fc
  .tuple(fc.array(piece, { minLength: 1, maxLength: 8 }), fc.array(piece, { minLength: 1, maxLength: 8 }))
  .chain(([head, tail]) =>
    fc
      .record({ head: fc.integer({ min: 20, max: 400 }), tail: fc.integer({ min: 20, max: 400 }) })
      .map((times) => (head.join('').repeat(times.head) + tail.join('').repeat(times.tail)).toWellFormed()),
  );

/**
 * The tokens that the view shows of each result of a batch, for results of these sizes in the order of their arrival.
 */
function shownOf(usable: number, sizes: readonly number[], openCalls = sizes.length): number[] {
  const thresholds = thresholdsOf(usable, Math.ceil(usable / 0.75));
  let batch: ToolBatch = { openCalls, usedTokens: 0 };
  return sizes.map((size) => {
    const shown = Math.min(size, outputCapOf(thresholds, batch, ANY_CHARS).tokens);
    batch = afterResult(batch, shown);
    return shown;
  });
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

describe('the cap of one output', () => {
  it('is 20 % of what can be used, and the characters that the tool allows', () => {
    const thresholds = thresholdsOf(168_000, 200_000);
    const batch = { openCalls: 1, usedTokens: 0 };
    expect(outputCapOf(thresholds, batch, 30_000)).toEqual({ tokens: 33_600, chars: 30_000 });
  });

  it('is never exceeded, by tokens or by characters, whatever the text is made of', () => {
    fc.assert(
      fc.property(
        longText,
        fc.integer({ min: 60, max: 2_000 }),
        fc.integer({ min: 120, max: 8_000 }),
        (text, tokens, chars) => {
          const capped = capText(text, { tokens, chars }, estimateText, HINT);
          expect(capped.tokens).toBeLessThanOrEqual(tokens);
          expect(capped.tokens).toBe(estimateText(capped.text));
          expect(capped.text.length).toBeLessThanOrEqual(chars);
          expect(capped.truncated).toBe(text.length > chars || estimateText(text) > tokens);
        },
      ),
    );
  });

  it('leaves the real head and tail, no character parted, and says how much is missing and where it is', () => {
    fc.assert(
      fc.property(longText, fc.integer({ min: 60, max: 2_000 }), (text, tokens) => {
        const capped = capText(text, { tokens, chars: ANY_CHARS }, estimateText, HINT);
        fc.pre(capped.truncated);
        const match = NOTICE.exec(capped.text);
        const head = capped.text.slice(0, match?.index);
        const tail = capped.text.slice((match?.index ?? 0) + (match?.[0].length ?? 0));
        expect([text.startsWith(head), text.endsWith(tail)]).toEqual([true, true]);
        expect(match?.slice(1)).toEqual([text.length - head.length - tail.length, text.length].map(String));
        expect(capped.text.isWellFormed()).toBe(true);
      }),
    );
  });

  it.each([
    ['prose', 'It is a truth universally acknowledged. '],
    ['digits', '3141592653 '],
    ['Chinese', '設計書を読んで、要件を確認します。'],
    ['base64', 'aGVsbG8gd29ybGQhIQxY93kZ'],
  ])('is used well for %s: at least 95 %% of it', (_name, unit) => {
    const { tokens } = capText(unit.repeat(20_000), { tokens: 4_000, chars: ANY_CHARS }, estimateText, HINT);
    expect(tokens).toBeGreaterThan(3_800);
  });

  it('leaves the notice alone where there is room for nothing else', () => {
    const { text } = capText('word '.repeat(1_000), { tokens: 1, chars: ANY_CHARS }, estimateText, HINT);
    expect(text.replace(NOTICE, '')).toBe('');
  });

  it('counts a text without end by its beginning', () => {
    const counted: number[] = [];
    const tokens = countAnyLength('a'.repeat(3_000_000), (text) => counted.push(text.length) * 1_000);
    expect([tokens, counted]).toEqual([3_000, [1_000_000]]);
  });
});

describe('the budget of a batch', () => {
  it.each([8_000, 64_000, 128_000, 200_000, 1_000_000])(
    'holds 8 parallel results of 30k tokens to 30 %% of the usable part of a %i window, and shows something of each',
    (window) => {
      const usable = Math.floor(window * 0.75);
      const shown = shownOf(usable, Array(8).fill(30_000));
      expect(sum(shown)).toBeLessThanOrEqual(0.3 * usable);
      expect(Math.min(...shown)).toBeGreaterThanOrEqual(Math.min(30_000, Math.floor((0.3 * usable) / 8) - 1));
    },
  );

  it('is kept by any batch, except for the minimum of each call', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 3_000, max: 1_000_000 }),
        fc.array(fc.nat(300_000), { maxLength: 64 }),
        (usable, sizes) => {
          const shown = shownOf(usable, sizes);
          expect(sum(shown)).toBeLessThanOrEqual(Math.max(0.3 * usable, sizes.length * MIN_OUTPUT_TOKENS));
          expect(Math.max(0, ...shown)).toBeLessThanOrEqual(Math.max(0.2 * usable, MIN_OUTPUT_TOKENS));
        },
      ),
    );
  });

  it('leaves to a large result what small ones before it did not take', () => {
    const small = Array(7).fill(100);
    expect(shownOf(100_000, [...small, 30_000]).at(-1)).toBe(20_000);
    expect(shownOf(100_000, [30_000], 8)).toEqual([3_750]);
  });

  it('never takes from a call what it had already: a share only grows while others come in', () => {
    const batch = fc.record({ openCalls: fc.integer({ min: 2, max: 64 }), usedTokens: fc.nat(400_000) });
    fc.assert(
      fc.property(batch, fc.nat(300_000), (before, size) => {
        const thresholds = thresholdsOf(1_000_000, 1_200_000);
        const { tokens } = outputCapOf(thresholds, before, ANY_CHARS);
        const after = outputCapOf(thresholds, afterResult(before, Math.min(size, tokens)), ANY_CHARS);
        expect(after.tokens).toBeGreaterThanOrEqual(tokens);
      }),
    );
  });
});

describe('the id of an output', () => {
  it('names its place', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e12 }), fc.nat(10_000), (messageSeq, partIndex) => {
        expect(parseRef(outputRef(messageSeq, partIndex))).toEqual({ kind: 'output', messageSeq, partIndex });
      }),
    );
  });

  it.each(['', 'out_1', 'out_0_1', 'out_-1_2', 'out_1_2_3', 'out_1_2; drop', `out_${'9'.repeat(30)}_1`, 'call_1_2'])(
    'is not %j',
    (id) => {
      expect(parseRef(id)).toBeNull();
    },
  );
});
