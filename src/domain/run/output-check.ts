import { type SchemaDraft, Validator } from '@cfworker/json-schema';
import { parseExactly, withPlainNumbers } from '../exact-json.ts';
import { endOfValue } from '../json-end.ts';
import type { ObjectSchema } from '../object-schema.ts';
import { readPattern } from '../patterns.ts';
import type { Json } from '../transcript/message.ts';

/** A result, or the problem of the answer in the words that the model is told. */
export type CheckedOutput = Readonly<{ value: Json } | { problem: string }>;

const MAX_PROBLEMS = 10;
const MAX_PROBLEM_CHARS = 200;

/** Keywords that only report that something inside is wrong. */
const OUTER = new Set([
  'properties',
  'patternProperties',
  'items',
  'prefixItems',
  'additionalProperties',
  'allOf',
  '$ref',
]);

/**
 * Whether a value fits the schema. The work may be exponential in the schema: see `isQuickToCheck`.
 * @param schema as `readOutputSchema` makes it
 */
export function checkOutput(schema: ObjectSchema, value: Json): CheckedOutput {
  const { valid, errors } = validatorOf(schema).validate(withPlainNumbers(value));
  if (valid) return { value };
  const inner = errors.filter(({ keyword }) => !OUTER.has(keyword));
  const problems = (inner.length === 0 ? errors : inner)
    .slice(0, MAX_PROBLEMS)
    .map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`.slice(0, MAX_PROBLEM_CHARS));
  return { problem: problems.join('\n') };
}

/** Made once for a schema: a tool's checks every call, and making one takes longer than most checks. */
const validators = new WeakMap<ObjectSchema, Validator>();

function validatorOf(schema: ObjectSchema): Validator {
  const cached = validators.get(schema);
  if (cached !== undefined) return cached;
  const read = withReadPatterns(schema) as ObjectSchema;
  const validator = new Validator({ ...read }, draftOf(schema), false);
  validators.set(schema, validator);
  return validator;
}

/** The draft that a schema names; 2020-12 without one. Earlier ones have lists as `items`. */
function draftOf({ $schema }: Readonly<Record<string, unknown>>): SchemaDraft {
  const [, draft] = /draft-0?([467])|(?=2019-09)/.exec(typeof $schema === 'string' ? $schema : '') ?? [null, null];
  if (draft === undefined) return '2019-09';
  if (draft === '4') return '4';
  return draft === null ? '2020-12' : '7';
}

type Fields = Readonly<Record<string, unknown>>;

const OF_DATA: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples']);
/** They hold schemas by names, which are no keywords. */
const NAMED: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
]);

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The schema without `format`, which says what a text means and not what is refused. Pure. */
export const withoutFormats = (schema: unknown): unknown =>
  withKeywords(schema, (key, value) => (key === 'format' && typeof value === 'string' ? null : [key, value]));

/**
 * The schema with patterns as the validator reads them. One that `readPattern` cannot read is left out: tools of other
 * servers may have it, `readOutputSchema` refuses it.
 */
const withReadPatterns = (schema: unknown): unknown =>
  withKeywords(schema, (key, value) => {
    if (key === 'pattern' && typeof value === 'string') return sourceOf(value, (source) => [key, source]);
    if (key !== 'patternProperties' || !isFields(value)) return [key, value];
    const named = Object.entries(value).map(([name, inner]) => sourceOf(name, (source) => [source, inner]));
    return [key, Object.fromEntries(named.filter((entry) => entry !== null))];
  });

function sourceOf(pattern: string, entryOf: (source: string) => Entry): Entry | null {
  const read = readPattern(pattern);
  return 'source' in read ? entryOf(read.source) : null;
}

type Entry = readonly [key: string, value: unknown];

/** The schema with each of its keywords as `change` makes it. Null: without. */
function withKeywords(schema: unknown, change: (key: string, value: unknown) => Entry | null): unknown {
  if (Array.isArray(schema)) return schema.map((inner) => withKeywords(inner, change));
  if (!isFields(schema)) return schema;
  const kept = Object.entries(schema).flatMap(([key, value]) => {
    const changed = change(key, value);
    return changed === null ? [] : [changed];
  });
  const inner = (key: string, value: unknown): unknown => {
    if (OF_DATA.has(key)) return value;
    if (!NAMED.has(key) || !isFields(value)) return withKeywords(value, change);
    return Object.fromEntries(Object.entries(value).map(([name, named]) => [name, withKeywords(named, change)]));
  };
  return Object.fromEntries(kept.map(([key, value]) => [key, inner(key, value)]));
}

/** Whether a check is quick for every value: the schema has no keyword that can repeat work without end. */
export function isQuickToCheck(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return true;
  return Object.entries(schema).every(([key, value]) => !SLOW.has(key) && isQuickToCheck(value));
}

const SLOW: ReadonlySet<string> = new Set(['pattern', 'patternProperties', '$ref', 'uniqueItems', 'format']);

/** Most values in one answer that are tried. */
const MAX_VALUES = 8;
/** Most places at which a value is looked for. */
const MAX_STARTS = 64;

const THOUGHTS = /^[\s\S]*<\/(?:think|thinking|thought|thoughts|reasoning|reflection)>/i;
const FENCE = /(?:```|~~~)[ \t]*[\w+.-]*[ \t]*\r?\n?([\s\S]*?)(?:```|~~~)/g;

/** The values that an answer may have as its result, the likeliest first; or why there is none. */
export type ReadValues = Readonly<{ values: readonly Json[] } | { problem: string }>;

/**
 * The JSON in an answer: its whole text, what follows its thoughts, its blocks of code (the last one first), and the
 * objects and lists between its sentences.
 */
export function readJson(text: string): ReadValues {
  const whole = text.replaceAll('\uFEFF', '');
  const answer = whole.replace(THOUGHTS, '');
  const fenced = [...answer.matchAll(FENCE)].map(([, inner = '']) => inner).reverse();
  const texts = [whole, answer, ...fenced, ...embedded(answer), ...(answer === whole ? [] : embedded(whole))];
  const values = [...new Set(texts)].flatMap(parsed).slice(0, MAX_VALUES);
  if (values.length > 0) return { values };
  return { problem: text.trim() === '' ? 'The answer has no text.' : 'The answer is not JSON.' };
}

function parsed(text: string): Json[] {
  try {
    return [parseExactly(text) as Json];
  } catch {
    return [];
  }
}

/** The texts of objects and lists, the last one first. */
function embedded(text: string): string[] {
  const found: string[] = [];
  let starts = 0;
  for (let at = 0; at < text.length && starts < MAX_STARTS; at++) {
    if (text[at] !== '{' && text[at] !== '[') continue;
    starts += 1;
    const end = endOfValue(text, at);
    if (end === null || parsed(text.slice(at, end)).length === 0) continue;
    found.unshift(text.slice(at, end));
    at = end - 1;
  }
  return found;
}
