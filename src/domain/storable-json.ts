import { isWrittenNumber, objectOf } from './exact-json.ts';

/**
 * Text that a `text` column accepts. `split` and `join`: on a text of only NULs `replaceAll` takes four times as long.
 */
export function toText(value: string): string {
  return value.toWellFormed().split('\u0000').join('\ufffd');
}

/**
 * A JSON value that `jsonb` accepts. Clients' input is converted once, because it is written more than once and lone
 * surrogates slow `JSON.stringify` down many times.
 */
export function toStorable(value: unknown): unknown {
  return isStorable(value) ? value : rebuilt(value);
}

function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\u0000');
  if (typeof value !== 'object' || value === null || isWrittenNumber(value)) return true;
  if (Array.isArray(value)) return value.every(isStorable);
  return Object.entries(value).every(([key, item]) => isStorable(key) && isStorable(item));
}

function rebuilt(value: unknown): unknown {
  if (typeof value === 'string') return toText(value);
  if (typeof value !== 'object' || value === null || isWrittenNumber(value)) return value;
  if (Array.isArray(value)) return value.map(rebuilt);
  return objectOf(Object.entries(value).map(([key, item]) => [toText(key), rebuilt(item)]));
}
