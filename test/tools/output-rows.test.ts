import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findRows, foldRows, MAX_ROW_CHARS } from '../../src/tools/output-rows.ts';

const anyText = fc
  .array(
    fc.oneof(
      fc.constantFrom('\n', '\r\n', '😀'.repeat(300), 'x'.repeat(MAX_ROW_CHARS), 'y'.repeat(MAX_ROW_CHARS + 1), ''),
      fc.string({ unit: 'binary', maxLength: 30 }),
    ),
    { maxLength: 30 },
  )
  .map((pieces) => pieces.join('').toWellFormed());

const shown = (text: string): string[] => {
  const rows = foldRows(text);
  return Array.from({ length: rows.count }, (_, index) => rows.show(index + 1));
};

describe('a text in rows', () => {
  it('is its lines, numbered from 1, and a line break at the end makes no row of its own', () => {
    expect(shown('one\n\nthree\r\nfour\n')).toEqual(['1\tone', '2\t', '3\tthree', '4\tfour']);
    expect(shown('')).toEqual([]);
  });

  it('has long lines folded, and says which rows go on with the line above', () => {
    const long = 'x'.repeat(MAX_ROW_CHARS);
    expect(shown(`${long}${long}yz\nend`)).toEqual([`1\t${long}`, `2+\t${long}`, '3+\tyz', '4\tend']);
  });

  it('loses nothing, parts no character, and has no row that is too long', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const rows = foldRows(text);
        const starts = Array.from({ length: rows.count + 1 }, (_, index) => rows.startOf(index + 1));
        const pieces = starts.slice(0, -1).map((start, index) => text.slice(start, starts[index + 1]));
        expect(pieces.join('')).toBe(text);
        for (const piece of pieces) {
          expect(piece.isWellFormed()).toBe(true);
          expect(piece.replace(/\n$/, '').length).toBeLessThanOrEqual(MAX_ROW_CHARS);
        }
      }),
    );
  });

  it('knows the row of every position', () => {
    fc.assert(
      fc.property(anyText, fc.nat(1_000), (text, position) => {
        fc.pre(position < text.length);
        const rows = foldRows(text);
        const row = rows.rowAt(position);
        expect(rows.startOf(row)).toBeLessThanOrEqual(position);
        expect(rows.startOf(row + 1)).toBeGreaterThan(position);
      }),
    );
  });
});

describe('a search', () => {
  const text = 'alpha\nBeta (1+1)\ngamma\nalphabet\n';
  const find = (search: string, fromRow = 1, maxRows = 10) => findRows({ text, search, fromRow, maxRows });

  it('finds plain text in any case, from a row on and no more rows than asked for', () => {
    expect([find('ALPHA'), find('alpha', 2), find('a', 1, 2), find('nowhere')]).toEqual([[1, 4], [4], [1, 2], []]);
  });

  it('takes the text for itself where the output has it, and for an expression where it has not', () => {
    expect([find('(1+1)'), find('^al.*t$'), find('gam+a|Beta')]).toEqual([[2], [4], [2, 3]]);
  });

  it('finds nothing by what is neither there nor an expression, and ends on one that matches nothing everywhere', () => {
    expect([find('(unclosed'), find('z*')]).toEqual([[], [1, 2, 3, 4]]);
  });

  it('finds what a fold parts, in the row where it begins', () => {
    const folded = `${'x'.repeat(MAX_ROW_CHARS - 3)}needle`;
    expect(findRows({ text: folded, search: 'needle', fromRow: 1, maxRows: 9 })).toEqual([1]);
  });

  it('finds every row that has it, whatever the text', () => {
    fc.assert(
      fc.property(anyText, (any) => {
        const rows = foldRows(any);
        const expected = new Set([...any.matchAll(/y/gi)].map(({ index }) => rows.rowAt(index)));
        expect(findRows({ text: any, search: 'Y', fromRow: 1, maxRows: 1e6 })).toEqual([...expected]);
      }),
    );
  });
});
