import { describe, expect, it } from 'vitest';
import { checkOutput, isQuickToCheck, readJson } from '../../../src/domain/run/output-check.ts';

const SCHEMA = {
  type: 'object',
  properties: { total: { type: 'number' }, rows: { type: 'array', items: { type: 'string' } } },
  required: ['total'],
} as const;

describe('a result', () => {
  it('fits its schema, or is told each mistake with its place', () => {
    expect(checkOutput(SCHEMA, { total: 1, rows: ['a'] })).toEqual({ value: { total: 1, rows: ['a'] } });
    const checked = checkOutput(SCHEMA, { rows: ['a', 1] });
    expect(checked).toHaveProperty('problem', expect.stringContaining('#/rows/1'));
    expect(checked).toHaveProperty('problem', expect.stringContaining('"total"'));
  });

  it.each([
    ['http://json-schema.org/draft-07/schema#', { items: [{ type: 'string' }, { type: 'number' }] }],
    ['https://json-schema.org/draft/2020-12/schema', { prefixItems: [{ type: 'string' }, { type: 'number' }] }],
  ])('is checked by the draft that its schema names: %s', ($schema, pair) => {
    const schema = { $schema, type: 'object' as const, properties: { pair: { type: 'array', ...pair } } };
    expect(checkOutput(schema, { pair: ['a', 1] })).toHaveProperty('value');
    expect(checkOutput(schema, { pair: [1, 'a'] })).toHaveProperty('problem');
  });

  it('is checked where a reference has percent-encoding', () => {
    const schema = {
      type: 'object' as const,
      properties: { p: { $ref: '#/$defs/50%25' } },
      $defs: { '50%': { type: 'number' } },
    };
    expect(checkOutput(schema, { p: 1 })).toHaveProperty('value');
    expect(checkOutput(schema, { p: 'a' })).toHaveProperty('problem');
  });

  it.each<[value: object, problems: string[]]>([
    [{ name: 'a_b', b_1: 2 }, []],
    [{ name: 'a b', b_1: '2', other: 3 }, ['#/name', '#/b_1', '#/other']],
  ])('is checked with patterns of Python, without those that JavaScript has not: %o', (value, problems) => {
    const schema = {
      type: 'object',
      properties: { name: { pattern: '\\A[\\w\\_]+\\Z' }, other: { pattern: '(?i)a', type: 'string' } },
      patternProperties: { '^b\\_': { type: 'integer' }, '(?i)c': false },
    } as const;
    const checked = checkOutput(schema, value as never);
    const told = 'problem' in checked ? checked.problem.split('\n').map((line) => line.split(':')[0]) : [];
    expect(told.toSorted()).toEqual(problems.toSorted());
  });

  it('with a thousand mistakes is told few of them', () => {
    const { problem = '' } = checkOutput(SCHEMA, { total: 1, rows: Array.from({ length: 1_000 }, () => 1) }) as {
      problem?: string;
    };
    expect(problem.split('\n').length).toBeLessThanOrEqual(10);
    expect(problem.length).toBeLessThan(3_000);
  });

  it.each<[string, unknown]>([
    ['{"a":1}', { a: 1 }],
    [' {"a":1}\n', { a: 1 }],
    ['```json\n{"a":1}\n```', { a: 1 }],
    ['Here it is:\n```\n{"a":1}\n```\nDone.', { a: 1 }],
    ['\uFEFF{"a":1}', { a: 1 }],
    ['```JSON\n{"a":1}\n```', { a: 1 }],
    ['```json5\r\n{"a":1}\r\n```', { a: 1 }],
    ['```{"a":1}```', { a: 1 }],
    ['~~~json\n{"a":1}\n~~~', { a: 1 }],
    ['```json\n{"b":1}\n```\n```json\n{"a":1}\n```', { a: 1 }],
    ['<think>1 and {"b":2}</think>\n\n{"a":1}', { a: 1 }],
    ['12 and 30 make 42.</think>{"a":1}', { a: 1 }],
    ['<thinking>Hm.</thinking>Here:\n```json\n{"a":1}\n```', { a: 1 }],
    ['{"a":1}\n\nThat is all.', { a: 1 }],
    ['The result is {"a":1}.', { a: 1 }],
    ['First {"b": "}"}, then {"a":1}', { a: 1 }],
    ['{"a":"</think>"}', { a: '</think>' }],
    ['Here: [1, 2]', [1, 2]],
  ])('is read from %j', (text, value) => {
    const read = readJson(text);
    expect('values' in read ? read.values[0] : read).toEqual(value);
  });

  it.each(['', '   ', 'No.', '{"a":', '```json\n{"a":\n```'])('is not read from %j', (text) => {
    expect(readJson(text)).toHaveProperty('problem');
  });

  it('is looked for in a long answer for a bounded time', () => {
    expect(readJson('{"a":['.repeat(100_000))).toHaveProperty('problem');
  });

  it.each<[object, boolean]>([
    [SCHEMA, true],
    [{ properties: { a: { pattern: '(a+)+' } } }, false],
    [{ properties: { a: { $ref: '#' } } }, false],
    [{ properties: { a: { items: { uniqueItems: true } } } }, false],
  ])('of the schema %j is quick to check: %s', (schema, expected) => {
    expect(isQuickToCheck(schema)).toBe(expected);
  });
});
