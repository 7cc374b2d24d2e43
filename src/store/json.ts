/**
 * JSON text that `jsonb` accepts. Postgres refuses U+0000 and lone surrogates in it
 * (https://www.postgresql.org/docs/current/datatype-json.html); models and tools produce both. Each becomes U+FFFD.
 */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value);
  return /\\u0000|\\ud[89a-f]/i.test(text) ? JSON.stringify(value, cleaned) : text;
}

/** Text that a `text` column accepts. Of a text of NUL alone `replaceAll` takes four times as long. */
export function toText(value: string): string {
  return value.toWellFormed().split('\u0000').join('\ufffd');
}

/**
 * A JSON value whose texts `jsonb` accepts. What clients send is made so at once: half characters take `JSON.stringify`
 * many times as long, and it is written more than once.
 */
export function toStorable(value: unknown): unknown {
  return isStorable(value) ? value : rebuilt(value);
}

function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\u0000');
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorable);
  return Object.entries(value).every(([key, item]) => isStorable(key) && isStorable(item));
}

function rebuilt(value: unknown): unknown {
  if (typeof value === 'string') return toText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(rebuilt);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [toText(key), rebuilt(item)]));
}

function cleaned(_key: string, value: unknown): unknown {
  if (typeof value === 'string') return toText(value);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [toText(key), item]));
}
