import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keepHeadAndTail } from '../../src/domain/truncate.ts';

const NOTICE = /\n… \[(\d+) of (\d+) characters cut out\] …\n/;
/** Longer than any notice about the texts below. */
const ROOMY_LIMIT = 60;

const longText = fc.string({ unit: 'binary', minLength: 100, maxLength: 400 });
const anyLongText = fc.string({
  unit: fc.oneof(fc.constantFrom('😀', '\uD83D', '\uDE00', '…'), fc.string({ minLength: 1, maxLength: 1 })),
  minLength: 100,
  maxLength: 400,
});

/** Head, tail and the numbers of the notice between them. */
function taken(text: string): { head: string; tail: string; cut: number; total: number } {
  const match = NOTICE.exec(text);
  if (match === null) throw new Error(`no notice in ${JSON.stringify(text)}`);
  const tail = text.slice(match.index + match[0].length);
  return { head: text.slice(0, match.index), tail, cut: Number(match[1]), total: Number(match[2]) };
}

describe('a text that is cut to a limit', () => {
  it('comes back as it is when it fits', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(20), (text, room) => {
        expect(keepHeadAndTail(text, text.length + room)).toEqual({ text, truncated: false });
      }),
    );
  });

  it('is never longer than the limit, and uses most of it', () => {
    fc.assert(
      fc.property(anyLongText, fc.integer({ min: ROOMY_LIMIT, max: 99 }), (text, limit) => {
        const result = keepHeadAndTail(text, limit);
        expect(result.truncated).toBe(true);
        expect(result.text.length).toBeLessThanOrEqual(limit);
        expect(result.text.length).toBeGreaterThan(limit - 8);
      }),
    );
  });

  it('has the real head and the real tail, and says truly how much is missing between them', () => {
    fc.assert(
      fc.property(longText, fc.integer({ min: ROOMY_LIMIT, max: 99 }), (text, limit) => {
        const { head, tail, cut, total } = taken(keepHeadAndTail(text, limit).text);
        expect(text.startsWith(head)).toBe(true);
        expect(text.endsWith(tail)).toBe(true);
        expect({ cut, total }).toEqual({ cut: text.length - head.length - tail.length, total: text.length });
        expect(Math.abs(head.length - tail.length)).toBeLessThanOrEqual(3);
      }),
    );
  });

  it('is well-formed, whatever it was cut from', () => {
    fc.assert(
      fc.property(anyLongText, fc.integer({ min: 0, max: 99 }), (text, limit) => {
        expect(keepHeadAndTail(text, limit).text.isWellFormed()).toBe(true);
      }),
    );
  });

  it.each([70, 71, 72, 73])('parts no character that takes two units, at a limit of %i', (limit) => {
    const { head, tail } = taken(keepHeadAndTail('😀'.repeat(100), limit).text);
    expect(head).toMatch(/^(😀)+$/u);
    expect(tail).toMatch(/^(😀)+$/u);
  });

  it('is the notice alone when the limit has no room for more', () => {
    const { head, tail, cut } = taken(keepHeadAndTail('x'.repeat(500), 10).text);
    expect({ head, tail, cut }).toEqual({ head: '', tail: '', cut: 500 });
  });
});
