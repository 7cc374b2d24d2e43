import { type SchemaDraft, Validator } from '@cfworker/json-schema';
import { withPlainNumbers } from '../exact-json.ts';
import type { Json } from '../transcript/message.ts';
import type { OutputSchema } from './output-schema.ts';

/** A result, or the problem of the answer in the words that the model is told. */
export type CheckedOutput = Readonly<{ value: Json } | { problem: string }>;

const MAX_PROBLEMS = 10;
const MAX_PROBLEM_CHARS = 200;

/** Keywords that only report that something inside is wrong. */
const OUTER = new Set(['properties', 'items', 'prefixItems', 'additionalProperties', 'allOf', '$ref']);

/**
 * Whether a value fits the schema. The work may be exponential in the schema: see `isQuickToCheck`.
 * @param schema as `schemaProblem` takes it
 */
export function checkOutput(schema: OutputSchema, value: Json): CheckedOutput {
  const { valid, errors } = new Validator({ ...schema }, draftOf(schema), false).validate(withPlainNumbers(value));
  if (valid) return { value };
  const inner = errors.filter(({ keyword }) => !OUTER.has(keyword));
  const told = (inner.length === 0 ? errors : inner)
    .slice(0, MAX_PROBLEMS)
    .map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`.slice(0, MAX_PROBLEM_CHARS));
  return { problem: told.join('\n') };
}

/** The draft that a schema names; 2020-12 without one. Earlier ones have lists as `items`. */
function draftOf({ $schema }: Readonly<Record<string, unknown>>): SchemaDraft {
  const [, draft] = /draft-0?([467])|(?=2019-09)/.exec(typeof $schema === 'string' ? $schema : '') ?? [null, null];
  if (draft === undefined) return '2019-09';
  if (draft === '4') return '4';
  return draft === null ? '2020-12' : '7';
}

const OF_DATA: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples']);

/** The schema without `format`, which says what a text means and not what is refused. Pure. */
export function withoutFormats(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutFormats);
  if (typeof schema !== 'object' || schema === null) return schema;
  // A property of this name has a schema of its own.
  const kept = Object.entries(schema).filter(([key, value]) => key !== 'format' || typeof value !== 'string');
  return Object.fromEntries(kept.map(([key, value]) => [key, OF_DATA.has(key) ? value : withoutFormats(value)]));
}

/** Whether a check is quick for every value: the schema has no keyword that can repeat work without end. */
export function isQuickToCheck(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return true;
  return Object.entries(schema).every(([key, value]) => !SLOW.has(key) && isQuickToCheck(value));
}

const SLOW: ReadonlySet<string> = new Set(['pattern', 'patternProperties', '$ref', 'uniqueItems', 'format']);

/** The JSON of an answer: all of its text, or the one block of code in it. */
export function readJson(text: string): CheckedOutput {
  const fenced = /^[^`]*```(?:json)?\s*\n([\s\S]*?)\n?```[^`]*$/.exec(text)?.[1];
  for (const candidate of [text, fenced]) {
    if (candidate === undefined) continue;
    try {
      return { value: JSON.parse(candidate) };
    } catch {
      // The next form, if there is one.
    }
  }
  return { problem: text.trim() === '' ? 'The answer has no text.' : 'The answer is not JSON.' };
}
