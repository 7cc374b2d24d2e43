import { z } from 'zod';
import type { Random } from '../support/random.ts';

/** The part of JSON Schema that the API's document uses. */
export type Schema = Readonly<{
  $ref?: string | undefined;
  anyOf?: readonly Schema[] | undefined;
  oneOf?: readonly Schema[] | undefined;
  allOf?: readonly Schema[] | undefined;
  const?: unknown;
  enum?: readonly unknown[] | undefined;
  type?: string | readonly string[] | undefined;
  pattern?: string | undefined;
  minLength?: number | undefined;
  maxLength?: number | undefined;
  minimum?: number | undefined;
  maximum?: number | undefined;
  minItems?: number | undefined;
  maxItems?: number | undefined;
  items?: Schema | undefined;
  properties?: Readonly<Record<string, Schema>> | undefined;
  required?: readonly string[] | undefined;
  additionalProperties?: boolean | Schema | undefined;
}>;

export const schemaSchema: z.ZodType<Schema> = z.lazy(() =>
  z.looseObject({
    $ref: z.string().optional(),
    anyOf: z.array(schemaSchema).optional(),
    oneOf: z.array(schemaSchema).optional(),
    allOf: z.array(schemaSchema).optional(),
    enum: z.array(z.unknown()).optional(),
    type: z.union([z.string(), z.array(z.string())]).optional(),
    pattern: z.string().optional(),
    minLength: z.number().optional(),
    maxLength: z.number().optional(),
    minimum: z.number().optional(),
    maximum: z.number().optional(),
    minItems: z.number().optional(),
    maxItems: z.number().optional(),
    items: schemaSchema.optional(),
    properties: z.record(z.string(), schemaSchema).optional(),
    required: z.array(z.string()).optional(),
    additionalProperties: z.union([z.boolean(), schemaSchema]).optional(),
  }),
);

export type Values = Readonly<{
  /** Makes a value that the schema allows. */
  valid: (schema: Schema) => unknown;
  /** Makes such a value and changes a part of it, which is then wrong most of the time. */
  broken: (schema: Schema) => unknown;
}>;

/** From this depth on lists are as short as they may be, and objects have no free keys. No body needs to be deeper. */
const MAX_DEPTH = 5;

/**
 * Makes random values from schemas.
 * @param schemas the schemas to which `#/components/schemas/NAME` refers, by name
 * @param textFor makes the text of a string from its pattern and the name of its property; each is empty if unknown
 */
export function createValues(
  schemas: Readonly<Record<string, Schema>>,
  random: Random,
  textFor: (pattern: string, name: string) => string,
): Values {
  const valid = (schema: Schema, name = '', depth = 0): unknown => {
    const chosen = schema.$ref ? schemas[schema.$ref.split('/').at(-1) ?? ''] : undefined;
    if (chosen !== undefined) return valid(chosen, name, depth);
    if ('const' in schema) return schema.const;
    if (schema.enum !== undefined) return random.pick(schema.enum);
    const variants = schema.anyOf ?? schema.oneOf;
    if (variants !== undefined) return valid(random.pick(variants), name, depth);
    if (schema.allOf !== undefined) return Object.assign({}, ...schema.allOf.map((part) => valid(part, name, depth)));
    return ofType(schema, name, depth);
  };
  const ofType = (schema: Schema, name: string, depth: number): unknown => {
    const { type = random.pick(['string', 'integer', 'boolean', 'null', 'object', 'array']) } = schema;
    switch (typeof type === 'string' ? type : random.pick(type)) {
      case 'string':
        return textFor(schema.pattern ?? '', name).slice(0, schema.maxLength);
      case 'integer':
      case 'number':
        return random.pick([schema.minimum ?? 0, (schema.minimum ?? 0) + 1, schema.maximum ?? 7]);
      case 'boolean':
        return random.chance(0.5);
      case 'array':
        return Array.from(
          {
            length: Math.max(
              schema.minItems ?? 0,
              depth < MAX_DEPTH ? random.between(0, Math.min(2, schema.maxItems ?? 2)) : 0,
            ),
          },
          () => valid(schema.items ?? { type: 'string' }, name, depth + 1),
        );
      case 'object':
        return objectOf(schema, depth);
      default:
        return null;
    }
  };
  const objectOf = ({ properties = {}, required = [], additionalProperties }: Schema, depth: number): unknown => {
    const chosen = Object.entries(properties).filter(([name]) => required.includes(name) || random.chance(0.4));
    const named = chosen.map(([name, schema]) => [name, valid(schema, name, depth + 1)]);
    const isOpen = typeof additionalProperties === 'object' && depth < MAX_DEPTH && random.chance(0.5);
    return Object.fromEntries(isOpen ? [...named, ['k', valid(additionalProperties, '', depth + 1)]] : named);
  };
  return { valid: (schema) => valid(schema), broken: (schema) => breakSomewhere(valid(schema), random) };
}

const ODD_NAMES = ['__proto__', 'constructor', 'toString', '', 'tenantId', 'tenant_id', 'x'.repeat(300), 'ключ'];

/**
 * Texts that often cause faults: NUL, halves of characters, encodings of other formats, long texts and usual attacks.
 */
export const ODD_TEXTS = [
  '',
  ' ',
  '\u0000',
  'a\u0000b',
  '\ud800',
  '\udc00x',
  '\u202e\u2066',
  "' or 1=1 --",
  '../../etc/passwd',
  '%00',
  '{{7*7}}',
  'e\u0301'.repeat(50),
  'x'.repeat(70_000),
  'NaN',
  '-1',
  '99999999999999999999',
];

const ODD_VALUES = [
  null,
  true,
  -1,
  0.5,
  1e308,
  2 ** 53,
  [],
  {},
  [[[[[[[[]]]]]]]],
  [null],
  { type: 'text' },
  { type: 'image', url: 'file:///etc/passwd' },
  { $ne: 1 },
];

function breakSomewhere(value: unknown, random: Random): unknown {
  if (typeof value === 'object' && value !== null && random.chance(0.75)) {
    const keys = Object.keys(value);
    if (keys.length === 0 || random.chance(0.3)) return withOdd(value, random);
    const key = random.pick(keys);
    if (Array.isArray(value)) return value.map((each, i) => (String(i) === key ? breakSomewhere(each, random) : each));
    const entries = Object.entries(value);
    if (random.chance(0.3)) return Object.fromEntries(entries.filter(([name]) => name !== key));
    return Object.fromEntries(
      entries.map(([name, each]) => [name, name === key ? breakSomewhere(each, random) : each]),
    );
  }
  return random.chance(0.5) ? random.pick(ODD_TEXTS) : random.pick(ODD_VALUES);
}

function withOdd(value: object, random: Random): unknown {
  if (Array.isArray(value)) return [...value, random.pick(ODD_VALUES)];
  return Object.fromEntries([...Object.entries(value), [random.pick(ODD_NAMES), random.pick(ODD_VALUES)]]);
}
