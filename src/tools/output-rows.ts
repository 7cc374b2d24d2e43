import { toBoundary } from '../domain/truncate.ts';

/** Longer lines are folded: a page must fit the smallest window, also of JSON on one line. */
export const MAX_ROW_CHARS = 500;

/** A text in numbered rows, counted from 1. A row is a line, or a piece of a long one. */
export type OutputRows = Readonly<{
  count: number;
  rowAt: (position: number) => number;
  startOf: (row: number) => number;
  /** `<number><tab><text>`. A `+` after the number: the row continues the line above. */
  show: (row: number) => string;
}>;

/** Folds a text into rows. Equal texts have equal rows in every call. */
export function foldRows(text: string): OutputRows {
  const starts = rowStarts(text);
  const startOf = (row: number): number => starts[row - 1] ?? text.length;
  return {
    count: starts.length,
    startOf,
    rowAt(position) {
      let [least, most] = [0, starts.length];
      while (most - least > 1) {
        const middle = (least + most) >> 1;
        if ((starts[middle] ?? 0) <= position) least = middle;
        else most = middle;
      }
      return least + 1;
    },
    show(row) {
      const start = startOf(row);
      const isContinued = start > 0 && text[start - 1] !== '\n';
      return `${row}${isContinued ? '+' : ''}\t${text.slice(start, startOf(row + 1)).replace(/\r?\n$/, '')}`;
    },
  };
}

function rowStarts(text: string): number[] {
  const starts: number[] = [];
  for (let from = 0; from < text.length; ) {
    starts.push(from);
    const lineBreak = text.indexOf('\n', from);
    const lineEnd = lineBreak === -1 ? text.length : lineBreak;
    // A line break alone makes no row of its own.
    from = lineEnd - from <= MAX_ROW_CHARS ? lineEnd + 1 : toBoundary(text, from + MAX_ROW_CHARS, -1);
  }
  return starts;
}

/** One search. Plain data, because it is sent to another thread. */
export type OutputSearch = Readonly<{
  text: string;
  search: string;
  fromRow: number;
  maxRows: number;
}>;

/**
 * The matching rows in order, for plain text or, if the text does not contain that, a regular expression; case is
 * ignored. A pattern can take forever, so this runs in a thread that can be ended.
 */
export function findRows({ text, search, fromRow, maxRows }: OutputSearch): number[] {
  const rows = foldRows(text);
  const found: number[] = [];
  const expression = expressionFor(text, search);
  if (expression === null) return found;
  expression.lastIndex = rows.startOf(fromRow);
  for (let match = expression.exec(text); match !== null; match = expression.exec(text)) {
    const row = rows.rowAt(match.index);
    if (row !== found.at(-1)) found.push(row);
    if (found.length === maxRows) break;
    // On to the next row: one match is enough to show a row.
    expression.lastIndex = Math.max(rows.startOf(row + 1), match.index + 1);
  }
  return found;
}

function expressionFor(text: string, search: string): RegExp | null {
  const plain = search.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
  if (new RegExp(plain, 'i').test(text)) return new RegExp(plain, 'gi');
  try {
    return plain === search ? null : new RegExp(search, 'gim');
  } catch {
    return null;
  }
}
