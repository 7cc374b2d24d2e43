/**
 * JSON text that `jsonb` accepts. Postgres refuses U+0000 and lone surrogates in it
 * (https://www.postgresql.org/docs/current/datatype-json.html); models and tools produce both. Each becomes U+FFFD.
 */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value);
  return /\\u0000|\\ud[89a-f]/i.test(text) ? JSON.stringify(value, cleaned) : text;
}

/** Text that a `text` column accepts. */
export function toText(value: string): string {
  return value.toWellFormed().replaceAll('\u0000', '\ufffd');
}

function cleaned(_key: string, value: unknown): unknown {
  if (typeof value === 'string') return toText(value);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [toText(key), item]));
}
