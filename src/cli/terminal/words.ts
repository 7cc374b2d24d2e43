import { stripVTControlCharacters } from 'node:util';

const MAX_ARGUMENTS_CHARS = 90;
const MAX_VALUE_CHARS = 60;
const MAX_RESULT_CHARS = 90;

/** Longer than the error messages of providers and of Baton. */
export const MAX_ERROR_CHARS = 2_000;

const NUMBER = new Intl.NumberFormat('en-US');

/** "12,345". */
export const number = (amount: number): string => NUMBER.format(amount);

/** "1 step", "2 steps", "12,345 tokens". */
export function count(amount: number, noun: string): string {
  return `${number(amount)} ${noun}${amount === 1 ? '' : 's'}`;
}

/** "96,000 → 30,000 tokens". */
export const tokenChange = (before: number, after: number): string => `${number(before)} → ${count(after, 'token')}`;

export const cost = (dollars: number | null): string =>
  dollars === null ? 'cost unknown' : `${dollars.toFixed(4)} USD`;

const BAR_CELLS = 20;

/** A share as a bar. A share above 1 is a full bar. */
export function bar(share: number): string {
  const full = Math.max(0, Math.min(BAR_CELLS, Math.round(share * BAR_CELLS)));
  return `${'█'.repeat(full)}${'░'.repeat(BAR_CELLS - full)}`;
}

/** Milliseconds as "0.4 s". */
export function seconds(durationMs: number): string {
  return `${(Math.max(0, durationMs) / 1000).toFixed(1)} s`;
}

/**
 * Text of a model or a tool without characters that could move a terminal's cursor, change its colours or turn the
 * reading direction (https://www.unicode.org/reports/tr9/, https://trojansource.codes).
 */
export function printable(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll('\t', '  ')
    .replace(/[[\p{Cc}\p{Bidi_Control}]--\n]/gv, '');
}

/** One line of JSON for programs that is safe on a terminal: the characters that `printable` drops are escaped. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\p{Cc}\p{Bidi_Control}]/gu,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export function oneLine(text: string, maxChars: number): string {
  const line = printable(text).replace(/\s+/g, ' ').trim();
  return line.length <= maxChars ? line : `${line.slice(0, maxChars - 1).trimEnd()}…`;
}

/** The arguments of a tool call on one line: `pattern: applyVoucher, limit: 200`. */
export function shortArguments(args: unknown): string {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return oneLine(JSON.stringify(args) ?? '', 90);
  const fields = Object.entries(args).map(([name, value]) => {
    return `${name}: ${oneLine(typeof value === 'string' ? value : JSON.stringify(value), MAX_VALUE_CHARS)}`;
  });
  return oneLine(fields.join(', '), MAX_ARGUMENTS_CHARS);
}

/** The first line with text, and the number of those that follow. */
export function shortResult(result: string): string {
  const lines = printable(result)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const [first = '', ...others] = lines;
  const more = others.length === 0 ? '' : ` (+${count(others.length, 'line')})`;
  return `${oneLine(first, MAX_RESULT_CHARS)}${more}`;
}
