import { parseExactly } from '../../domain/exact-json.ts';

/** Places of JSON Schemas that go to models. A star stands for each item of a list. */
const PLACES = [
  ['output', 'schema'],
  ['overrides', 'output', 'schema'],
  ['tools', '*', 'function', 'parameters'],
  ['tools', '*', 'parameters'],
  ['response_format', 'json_schema', 'schema'],
  ['text', 'format', 'schema'],
] as const;

export const mayHoldSchemas = (text: string): boolean => /"(?:schema|parameters)"/.test(text);

/**
 * A request as `JSON.parse` reads it, but for its schemas: they have all digits, and their keys in the order in which
 * they were written. Other fields are checked as JavaScript's numbers.
 * @throws SyntaxError
 */
export function parseWithSchemas(text: string): unknown {
  const body: unknown = JSON.parse(text);
  if (!mayHoldSchemas(text)) return body;
  const written = parseExactly(text);
  for (const place of PLACES) put(body, written, place);
  return body;
}

function put(body: unknown, written: unknown, [step, ...rest]: readonly string[]): void {
  if (step === '*') {
    if (!Array.isArray(body) || !Array.isArray(written)) return;
    for (const [at, item] of body.entries()) put(item, written[at], rest);
    return;
  }
  if (step === undefined || !isHolder(body, step) || !isHolder(written, step)) return;
  if (rest.length > 0) put(body[step], written[step], rest);
  else body[step] = written[step];
}

const isHolder = (value: unknown, key: string): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key);
