import { Validator } from '@cfworker/json-schema';
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
  const { valid, errors } = new Validator({ ...schema }, '2020-12', false).validate(value);
  if (valid) return { value };
  const inner = errors.filter(({ keyword }) => !OUTER.has(keyword));
  const told = (inner.length === 0 ? errors : inner)
    .slice(0, MAX_PROBLEMS)
    .map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`.slice(0, MAX_PROBLEM_CHARS));
  return { problem: told.join('\n') };
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
