import { describe, expect, it } from 'vitest';
import { isStrict, readOutputSchema } from '../../../src/domain/run/output-schema.ts';
import { MAX_OUTPUT_SCHEMA_BYTES, MAX_OUTPUT_SCHEMA_LEVELS } from '../../../src/domain/tunables.ts';

const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const strict = (properties: object) =>
  object(properties, { required: Object.keys(properties), additionalProperties: false });
const nested = (levels: number): object => (levels === 0 ? {} : { not: nested(levels - 1) });

describe('a schema of a result', () => {
  it.each<[string, unknown]>([
    ['any object', { type: 'object' }],
    ['a reference with percent-encoding', object({ a: { $ref: '#/$defs/50%25' } }, { $defs: { '50%': true } })],
    ['a reference with a bare percent', object({ a: { $ref: '#/$defs/50%' } }, { $defs: { '50%': true } })],
    [
      'a tuple of draft 7',
      object({ a: { items: [{ type: 'string' }, true] } }, { $schema: 'http://json-schema.org/draft-07/schema#' }),
    ],
    ['a recursive one', object({ next: { $ref: '#' }, by: { $ref: '#/$defs/a~1b' } }, { $defs: { 'a/b': true } })],
    ['one with lists', object({ rows: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'null' }] } } })],
    [
      'one with patterns of Python',
      object({ a: { pattern: '^[\\w\\_]+\\Z' } }, { patternProperties: { '^\\_': true } }),
    ],
    ['one of another program', { $schema: 'x', $id: 'https://example.com/a', ...object({ a: { minLength: 1 } }) }],
  ])('is %s', (_name, schema) => {
    expect(readOutputSchema(schema)).toEqual({ schema });
  });

  it.each<[string, unknown, path: string]>([
    ['a text', 'object', ''],
    ['a list', [], ''],
    ['null', null, ''],
    ['a list at its root', { type: 'array' }, 'type'],
    ['that only leads to itself', { $ref: '#' }, '$ref'],
    ['of a definition that is none', { $ref: '#/$defs/a', $defs: { a: object({ b: 1 }) } }, '$defs.a.properties.b'],
    ['of a type that does not exist', object({ at: { type: 'place' } }), 'properties.at.type'],
    ['with properties that are none', { type: 'object', properties: ['a'] }, 'properties'],
    ['with a property that is none', object({ a: 'string' }), 'properties.a'],
    ['with an empty choice', object({ a: { anyOf: [] } }), 'properties.a.anyOf'],
    ['with a wrong schema in a choice', object({ a: { anyOf: [true, 1] } }), 'properties.a.anyOf.1'],
    ['with items as a list', object({ a: { items: [{ type: 'string' }] } }), 'properties.a.items'],
    ['with names that are none', object({}, { required: 'a' }), 'required'],
    ['with an empty list of values', object({ a: { enum: [] } }), 'properties.a.enum'],
    ['with a limit that is none', object({ a: { minimum: '1' } }), 'properties.a.minimum'],
    ['with a length that is none', object({ a: { maxLength: -1 } }), 'properties.a.maxLength'],
    ['with a pattern that is none', object({ a: { pattern: '(' } }), 'properties.a.pattern'],
    ['with a pattern that is no text', object({ a: { pattern: 1 } }), 'properties.a.pattern'],
    [
      'with a name that is no pattern',
      { type: 'object', patternProperties: { '(?i)': true } },
      'patternProperties.(?i)',
    ],
    ['that leads nowhere', object({ a: { $ref: '#/$defs/b' } }), 'properties.a.$ref'],
    ['that leads out of it', object({ a: { $ref: 'https://example.com/b' } }), 'properties.a.$ref'],
    ['with another base inside', object({ a: { $id: 'b' } }), 'properties.a.$id'],
    ['that is too large', object({ a: { description: 'x'.repeat(MAX_OUTPUT_SCHEMA_BYTES) } }), ''],
    ['that is too deep', { type: 'object', not: nested(MAX_OUTPUT_SCHEMA_LEVELS) }, ''],
  ])('is none %s, and the problem names the place', (_name, schema, path) => {
    expect(readOutputSchema(schema)).toEqual({
      problem: { path: path === '' ? [] : path.split('.'), message: expect.any(String) },
    });
  });
});

describe('the strict mode of providers takes', () => {
  it.each<[string, object, boolean]>([
    ['a closed object of required properties', strict({ a: { type: 'string' } }), true],
    ['such objects in lists and choices', strict({ a: { type: 'array', items: { anyOf: [strict({}), {}] } } }), true],
    ['no optional property', { ...strict({ a: {}, b: {} }), required: ['a'] }, false],
    ['no open object', object({ a: {} }, { required: ['a'] }), false],
    ['no open object inside', strict({ a: { type: 'array', items: object({}) } }), false],
    ['no object without properties', { type: 'object', additionalProperties: false }, false],
    ['no keyword that it does not know', strict({ a: { uniqueItems: true } }), false],
    ['a property with the name of such a keyword', strict({ not: { type: 'string' } }), true],
  ])('%s', (_name, schema, expected) => {
    expect(isStrict(schema)).toBe(expected);
  });
});
