import { isDeepStrictEqual } from 'node:util';

/** A difference from the recording. `at` is the place; the rest are excerpts or descriptions. */
export type Mismatch = Readonly<{ at: string; expected: string; actual: string }>;

/** Length of the excerpt of a value, and how much of it precedes the first difference. */
const EXCERPT_CHARS = 120;
const BEFORE_DIFFERENCE_CHARS = 20;

/** Returns the difference of two values, or nothing if they are equal. The order of an object's keys is ignored. */
export function compareValues(at: string, expected: unknown, actual: unknown): Mismatch[] {
  if (isDeepStrictEqual(expected, actual)) return [];
  const [wanted, found] = [toText(expected), toText(actual)];
  const from = Math.max(0, firstDifference(wanted, found) - BEFORE_DIFFERENCE_CHARS);
  return [{ at, expected: excerpt(wanted, from), actual: excerpt(found, from) }];
}

export function formatMismatch({ at, expected, actual }: Mismatch): string {
  return `${at}: expected ${expected}, found ${actual}`;
}

function toText(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) => (isPlainObject(item) ? sortKeys(item) : item)) ?? 'nothing';
}

const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function sortKeys(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function firstDifference(a: string, b: string): number {
  let index = 0;
  while (index < a.length && a[index] === b[index]) index += 1;
  return index;
}

function excerpt(text: string, from: number): string {
  const cut = text.slice(from, from + EXCERPT_CHARS);
  return `${from > 0 ? '…' : ''}${cut}${from + EXCERPT_CHARS < text.length ? '…' : ''}`;
}
