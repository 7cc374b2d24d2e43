import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { parseExactly } from '../../src/domain/exact-json.ts';
import { toObjectSchema } from '../../src/domain/object-schema.ts';

const node = { type: 'object', properties: { next: { $ref: '#/$defs/Node' } }, required: ['next'] };
const $defs = { Node: node };

describe('the schema of an object', () => {
  it.each<[string, object, object]>([
    [
      'a root that says so',
      { type: 'object', properties: { next: { $ref: '#' } } },
      { type: 'object', properties: { next: { $ref: '#' } } },
    ],
    ['nothing', {}, { type: 'object' }],
    ['null as its type', { type: null, title: 'a' }, { type: 'object', title: 'a' }],
    ['an object or null', { title: 'a', type: ['null', 'object'] }, { title: 'a', type: 'object' }],
    ['a definition', { $defs, $ref: '#/$defs/Node' }, { $defs, ...node }],
    ['a definition in a list of one', { allOf: [{ $ref: '#/$defs/Node' }], $defs }, { $defs, ...node }],
    [
      'a definition of a definition',
      { $ref: '#/$defs/a', $defs: { ...$defs, a: { $ref: '#/$defs/Node' } } },
      { $defs: { ...$defs, a: { $ref: '#/$defs/Node' } }, ...node },
    ],
    [
      'a definition without a type',
      { $ref: '#/definitions/a', definitions: { a: { required: ['b'] } } },
      { type: 'object', definitions: { a: { required: ['b'] } }, required: ['b'] },
    ],
    [
      'a definition with a title of its own',
      { $ref: '#/$defs/a', title: 'root', $defs: { a: { title: 'a', type: 'object' } } },
      { title: 'root', $defs: { a: { title: 'a', type: 'object' } }, type: 'object' },
    ],
    ['a definition, and the word for it', { type: 'object', $ref: '#/$defs/Node', $defs }, { $defs, ...node }],
    [
      'a choice of objects',
      { anyOf: [node, { type: 'object' }], $defs },
      { type: 'object', anyOf: [node, { type: 'object' }], $defs },
    ],
    [
      'an object or a text',
      { anyOf: [{ type: 'string' }, node] },
      { type: 'object', anyOf: [{ type: 'string' }, node] },
    ],
  ])('is made of %s', (_, given, schema) => {
    const read = toObjectSchema(given);
    expect(read).toEqual({ schema });
    const again = 'schema' in read ? toObjectSchema(read.schema) : read;
    expect(again).toEqual(read);
  });

  it('keeps a reference beside a keyword that both have, because both hold', () => {
    const schema = { $ref: '#/$defs/Node', required: ['b'], $defs };
    expect(toObjectSchema(schema)).toEqual({ schema: { type: 'object', ...schema } });
  });

  it('keeps the order of keys and the digits of numbers', () => {
    const text =
      '{"$defs":{"a":{"properties":{"b":{"maximum":12345678901234567890},"7":true},"type":"object"}},"$ref":"#/$defs/a"}';
    const read = toObjectSchema(parseExactly(text));
    expect('schema' in read && JSON.stringify(read.schema)).toBe(
      `${text.slice(0, text.indexOf(',"$ref"'))},"properties":{"b":{"maximum":12345678901234567890},"7":true},"type":"object"}`,
    );
  });

  it.each<[string, unknown, string]>([
    ['a text', 'object', ''],
    ['a list', [], ''],
    ['false', false, ''],
    ['a list as its type', { type: 'array' }, 'type'],
    ['a definition of a text', { $ref: '#/$defs/a', $defs: { a: { type: 'string' } } }, 'type'],
    ['a choice of others', { anyOf: [{ type: 'string' }, { type: 'null' }] }, 'type'],
    ['all of an object and a text', { allOf: [{ type: 'object' }, { type: 'string' }] }, 'type'],
    ['a list of words', { enum: ['a'] }, 'type'],
    ['one word', { const: 'a' }, 'type'],
    ['nothing but itself', { $ref: '#' }, '$ref'],
    ['a circle', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }, '$ref'],
  ])('is none of %s, and the problem names the place', (_, given, path) => {
    const read = toObjectSchema(given);
    expect('problem' in read && read.problem.path.join('.')).toBe(path);
  });

  it('is looked at in one go, however often its parts refer to each other', () => {
    const names = Array.from({ length: 60 }, (_, index) => `d${index}`);
    const anyOf = names.map((name) => ({ $ref: `#/$defs/${name}` }));
    const tangled = {
      anyOf,
      $defs: Object.fromEntries(names.map((name) => [name, { anyOf: [...anyOf, { type: 'string' }] }])),
    };
    expect(toObjectSchema(tangled)).toHaveProperty('schema.type', 'object');
    const chain = Object.fromEntries(
      Array.from({ length: 20_000 }, (_, index) => [`c${index}`, { $ref: `#/$defs/c${index + 1}` }]),
    );
    expect(toObjectSchema({ $ref: '#/$defs/c0', $defs: { ...chain, c20000: node } })).toHaveProperty(
      'schema.required',
      ['next'],
    );
  });

  it('is made of what zod writes for a class that holds itself', () => {
    const Self = z.object({
      name: z.string(),
      get children() {
        return z.array(Self);
      },
    });
    const registry = z.registry<{ id: string }>();
    registry.add(Self, { id: 'Self' });
    const read = toObjectSchema(
      z.toJSONSchema(
        z.lazy(() => Self),
        { metadata: registry },
      ),
    );
    expect(read).toMatchObject({ schema: { type: 'object', required: ['name', 'children'], $defs: { Self: {} } } });
  });
});
