import { isWrittenNumber } from '../domain/exact-json.ts';

/**
 * A difference between a case (`recorded`) and its play (`now`). `step` counts over the whole case; 0: the end of the
 * case.
 */
export type Difference = Readonly<{ step: number; what: string; recorded: string; now: string }>;

/** Length of an excerpt, and of its part before the first difference. */
const EXCERPT_CHARS = 200;
const BEFORE_CHARS = 60;

/** The difference of two texts, cut to where they begin to differ. */
export function differenceOf(step: number, what: string, recorded: string, now: string): Difference {
  let at = 0;
  while (at < recorded.length && recorded[at] === now[at]) at += 1;
  const from = Math.max(0, at - BEFORE_CHARS);
  return { step, what, recorded: excerpt(recorded, from), now: excerpt(now, from) };
}

function excerpt(text: string, from: number): string {
  const end = from + EXCERPT_CHARS;
  const cut = `${from > 0 ? '…' : ''}${text.slice(from, end)}${end < text.length ? '…' : ''}`;
  return cut === '' ? '(nothing)' : cut;
}

/** A value as text. The order of keys in an object does not change the text. */
export function valueText(value: unknown): string {
  if (typeof value === 'string') return value;
  return JSON.stringify(value, (_key, item: unknown) => (isPlainObject(item) ? sortKeys(item) : item)) ?? '';
}

const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isWrittenNumber(value);

const sortKeys = (value: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
