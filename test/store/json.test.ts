import * as fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseExactly } from '../../src/domain/exact-json.ts';
import { toStorable, toText } from '../../src/domain/storable-json.ts';
import { readJson, toJson, toWrittenJson } from '../../src/store/db/json.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';

const clean = (text: string): string => text.toWellFormed().replaceAll('\u0000', '\uFFFD');

/** Any text, with what Postgres refuses in every place. */
const hostileText = fc.string({
  unit: fc.oneof(
    fc.constantFrom('\u0000', '\uD83D', '\uDE00', '😀', '\\', '\\u0000', '\\ud83d', '"'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  ),
  maxLength: 12,
});

const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3 },
    hostileText,
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(hostileText, tie('json'), { maxKeys: 4 }),
  ),
}));

describe('what goes into the database', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database[Symbol.asyncDispose]());

  it('is text that Postgres takes and gives back, with U+FFFD for what it refuses', async () => {
    await fc.assert(
      fc.asyncProperty(hostileText, async (text) => {
        const { rows } = await sql<{ value: string }>`select ${toText(text)}::text as value`.execute(database.db);
        expect(rows).toEqual([{ value: clean(text) }]);
      }),
    );
  });

  it('is JSON that Postgres takes and gives back, keys included', async () => {
    const cleanDeep = (value: unknown): unknown => {
      if (typeof value === 'string') return clean(value);
      if (Array.isArray(value)) return value.map(cleanDeep);
      if (value === null || typeof value !== 'object') return value;
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [clean(key), cleanDeep(item)]));
    };
    await fc.assert(
      fc.asyncProperty(json, async (value) => {
        const { rows } = await sql<{ value: unknown }>`select ${toJson({ value })}::jsonb as value`.execute(
          database.db,
        );
        expect(rows).toEqual([{ value: { value: cleanDeep(value) } }]);
      }),
    );
  });

  it('is the same when it was made so before', () => {
    fc.assert(
      fc.property(json, (value) => {
        const storable = toStorable(value);
        expect(JSON.stringify(storable)).toBe(toJson(value));
        expect(toStorable(storable)).toBe(storable);
      }),
    );
  });
});

describe('JSON of models, tools and clients', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database[Symbol.asyncDispose]());

  it.each([
    '{"zeta":1,"a":2}',
    '{"id":2512292042121000001,"n":1.10,"m":1e3,"z":-0}',
    '{"b":{"7":1,"3":2}}',
    '{"@json":"{}"}',
    '[{"bb":1,"a":2}]',
  ])('comes back from jsonb as it was: %s', async (text) => {
    const value = parseExactly(text);
    const kept = {
      type: 'tool',
      input: value,
      output: { type: 'json', value },
      tools: [{ inputSchema: value }],
      given: { kind: 'output', output: value },
    };
    const { rows } = await sql<{ value: unknown }>`select ${toWrittenJson(kept)}::jsonb as value`.execute(database.db);
    const back = rows[0]?.value as typeof kept | undefined;
    for (const one of [back?.input, back?.output.value, back?.tools[0]?.inputSchema, back?.given.output]) {
      expect(JSON.stringify(one)).toBe(text);
    }
    expect(back?.output.type).toBe('json');
  });

  it('stays readable for SQL where the store changes nothing', () => {
    const value = {
      input: { a: 1, bb: [{ c: 'x' }] },
      output: { type: 'content', value: [{ type: 'text', text: 'a' }] },
    };
    expect(toWrittenJson(value)).toBe(JSON.stringify(value));
    expect(readJson(JSON.stringify(value))).toEqual(value);
  });
});
