import { expect, it } from 'vitest';
import { parseJson } from '../../console/src/exact-json.ts';

// Its types would bring React's, which replace those of the pages that tests read.
const QUERIES: string = '@tanstack/react-query';
type Queries = Readonly<{ replaceEqualDeep: (before: unknown, after: unknown) => unknown }>;

it('keeps the digits of numbers, also when a query reads the same again', async () => {
  const { replaceEqualDeep } = (await import(QUERIES)) as Queries;
  const text = '{"id":12345678901234567890,"price":[1.10,1e3],"zero":-0,"said":"1.10","n":7}';
  const [read, again] = [parseJson(text), parseJson(text)];
  expect(JSON.stringify(read)).toBe(text);
  expect(JSON.stringify(replaceEqualDeep(read, again))).toBe(text);
  const other = text.replace('7890,', '7891,');
  expect(JSON.stringify(replaceEqualDeep(read, parseJson(other)))).toBe(other);
});
