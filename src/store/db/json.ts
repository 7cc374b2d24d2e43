import { isWrittenNumber, objectOf, parseExactly } from '../../domain/exact-json.ts';
import { toText } from '../../domain/storable-json.ts';

/**
 * JSON text that `jsonb` accepts. Postgres refuses U+0000 and lone surrogates
 * (https://www.postgresql.org/docs/current/datatype-json.html), which models and tools produce; each becomes U+FFFD.
 */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value);
  return /\\u0000|\\ud[89a-f]/i.test(text) ? JSON.stringify(value, cleaned) : text;
}

/**
 * The same for values with JSON of models, tools and clients. `jsonb` sorts keys and rewrites numbers, so that JSON is
 * kept as text inside of the value, where it would not come back as it is. `readJson` puts it back.
 */
export function toWrittenJson(value: unknown): string {
  return toJson(withWritten(value));
}

const WRITTEN = '@json';
/** Keys of arguments, results and schemas. */
const OF_JSON: ReadonlySet<string> = new Set(['input', 'args', 'inputSchema', 'schema', 'value', 'output']);

function withWritten(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || isWrittenNumber(value)) return value;
  if (Array.isArray(value)) return mapped(value, withWritten);
  const entries = Object.entries(value);
  const kept = mapped(entries, (entry) => {
    const [key, item] = entry;
    const made = OF_JSON.has(key) && isJsonOfOthers(key, value) ? asWritten(item) : withWritten(item);
    return made === item ? entry : ([key, made] as [string, unknown]);
  });
  return kept === entries ? value : Object.fromEntries(kept);
}

/** Not the output of a call, of which SQL reads the type, and not the list of its texts and files. */
function isJsonOfOthers(key: string, holder: object): boolean {
  if (key === 'value') return !('type' in holder && holder.type === 'content');
  return key !== 'output' || ('kind' in holder && holder.kind === 'output');
}

function mapped<T>(items: T[], map: (item: T) => T): T[] {
  const made = items.map(map);
  return made.every((item, index) => item === items[index]) ? items : made;
}

function asWritten(value: unknown): unknown {
  return isChangedByStore(value) ? { [WRITTEN]: toJson(value) } : value;
}

function isChangedByStore(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (isWrittenNumber(value)) return true;
  if (Array.isArray(value)) return value.some(isChangedByStore);
  const keys = Object.keys(value);
  if (keys.length === 1 && keys[0] === WRITTEN) return true;
  return keys.some((key, at) => isAfter(keys[at - 1], key)) || Object.values(value).some(isChangedByStore);
}

/** `jsonb` sorts keys by their bytes, shorter ones first. */
function isAfter(key: string | undefined, next: string): boolean {
  if (key === undefined) return false;
  const [bytes, others] = [Buffer.from(key), Buffer.from(next)];
  return bytes.length === others.length ? bytes.compare(others) > 0 : bytes.length > others.length;
}

/** The value of a `json` or `jsonb` column, with what `toWrittenJson` has kept. */
export function readJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return text.includes(`"${WRITTEN}"`) ? putBack(value) : value;
}

function putBack(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(putBack);
  const entries = Object.entries(value);
  const [only] = entries;
  if (entries.length === 1 && only?.[0] === WRITTEN && typeof only[1] === 'string') return parseExactly(only[1]);
  return Object.fromEntries(entries.map(([key, item]) => [key, putBack(item)]));
}

function cleaned(_key: string, value: unknown): unknown {
  if (typeof value === 'string') return toText(value);
  if (value === null || typeof value !== 'object' || Array.isArray(value) || isWrittenNumber(value)) return value;
  return objectOf(Object.entries(value).map(([key, item]) => [toText(key), item]));
}
