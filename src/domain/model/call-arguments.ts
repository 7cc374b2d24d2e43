import { isWrittenNumber, parseExactly } from '../exact-json.ts';
import type { Json } from '../transcript/message.ts';

/** A call's arguments as they are kept. `problem`: why no tool can be called with them, in words for the model. */
export type ReadArguments = Readonly<{ input: Json; problem: string | null }>;

/**
 * Reads the text of a call's arguments, with all digits and the order of keys. No text stands for no arguments. An
 * object that is written inside of a string is meant itself: models write their arguments twice encoded. Pure.
 */
export function readArguments(text: string): ReadArguments {
  if (text.trim() === '') return { input: {}, problem: null };
  try {
    return ofValue(parseExactly(text) as Json);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { input: text, problem: `The arguments are not JSON (${why}). ${WANTED}` };
  }
}

const WANTED = 'Call the tool again with one JSON object.';

function ofValue(input: Json): ReadArguments {
  if (isObject(input)) return { input, problem: null };
  const inner = typeof input === 'string' ? innerValue(input) : undefined;
  if (inner !== undefined && isObject(inner)) return { input: inner, problem: null };
  return { input, problem: `The arguments have to be an object, and not ${kindOf(input)}. ${WANTED}` };
}

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isNumber(value);

const isNumber = (value: unknown): boolean => typeof value === 'number' || isWrittenNumber(value);

function innerValue(text: string): Json | undefined {
  try {
    return parseExactly(text) as Json;
  } catch {
    return undefined;
  }
}

function kindOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return isNumber(value) ? 'a number' : `a ${typeof value}`;
}
