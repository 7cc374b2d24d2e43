import { withPlainNumbers } from '../exact-json.ts';
import { type ReadSchema, type SchemaProblem, schemaAt, toObjectSchema } from '../object-schema.ts';
import { readPattern } from '../patterns.ts';
import { MAX_OUTPUT_SCHEMA_BYTES, MAX_OUTPUT_SCHEMA_LEVELS } from '../tunables.ts';

const TYPES: ReadonlySet<unknown> = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']);

/** The keywords of JSON Schema that hold schemas: by name, in a list, or one. */
const NAMED = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'];
const LISTED = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const SINGLE = [
  'items',
  'additionalProperties',
  'additionalItems',
  'unevaluatedProperties',
  'unevaluatedItems',
  'contains',
  'propertyNames',
  'not',
  'if',
  'then',
  'else',
];
const NUMBERS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
const COUNTS = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'];

/** They would change where `$ref` leads. */
const FOREIGN = ['$id', '$anchor', '$dynamicAnchor', '$dynamicRef', '$recursiveAnchor', '$recursiveRef'];

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The JSON Schema of an object that an answer can be asked to fit, made from the given one; or why there is none. */
export function readOutputSchema(value: unknown): ReadSchema {
  const large = excessOf(value);
  if (large !== null) return { problem: { path: [], message: large } };
  const read = toObjectSchema(value);
  if ('problem' in read) return read;
  const plain = withPlainNumbers(read.schema);
  const problem = problemIn(plain, [], plain);
  return problem === null ? read : { problem };
}

/** First, because everything else looks at all of it. */
function excessOf(schema: unknown): string | null {
  if (!isObject(schema)) return null;
  const bytes = new TextEncoder().encode(JSON.stringify(schema)).byteLength;
  if (bytes > MAX_OUTPUT_SCHEMA_BYTES) return `at most ${MAX_OUTPUT_SCHEMA_BYTES} bytes as JSON, not ${bytes}`;
  return isDeeper(schema, MAX_OUTPUT_SCHEMA_LEVELS) ? `at most ${MAX_OUTPUT_SCHEMA_LEVELS} levels deep` : null;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => isDeeper(item, levels - 1));
}

function problemIn(schema: unknown, path: readonly string[], root: unknown): SchemaProblem | null {
  if (typeof schema === 'boolean') return null;
  if (!isObject(schema)) return { path, message: 'must be a JSON Schema: an object, true or false' };
  const own = keywordProblem(schema, root);
  if (own !== null) return { ...own, path: [...path, ...own.path] };
  for (const [key, value] of Object.entries(schema)) {
    const problem = problemOfPart(key, value, [...path, key], root);
    if (problem !== null) return problem;
  }
  return null;
}

/** Of the schemas inside the value of a keyword. */
function problemOfPart(key: string, value: unknown, path: readonly string[], root: unknown): SchemaProblem | null {
  if (NAMED.includes(key)) {
    if (!isObject(value)) return { path, message: 'must be an object of schemas' };
    return firstOf(
      Object.entries(value).map(
        ([name, schema]) =>
          () =>
            problemIn(schema, [...path, name], root),
      ),
    );
  }
  if (LISTED.includes(key)) {
    if (!Array.isArray(value) || value.length === 0) return { path, message: 'must be a list of schemas' };
    return firstOf(value.map((schema, index) => () => problemIn(schema, [...path, String(index)], root)));
  }
  if (key === 'items' && Array.isArray(value) && hasTuples(root)) {
    return firstOf(value.map((schema, index) => () => problemIn(schema, [...path, String(index)], root)));
  }
  return SINGLE.includes(key) ? problemIn(value, path, root) : null;
}

/** Drafts before 2020-12 have a list of schemas as `items`. */
const hasTuples = (root: unknown): boolean =>
  isObject(root) && /draft-0?[4-7]|2019-09/.test(typeof root['$schema'] === 'string' ? root['$schema'] : '');

function firstOf(checks: readonly (() => SchemaProblem | null)[]): SchemaProblem | null {
  for (const check of checks) {
    const problem = check();
    if (problem !== null) return problem;
  }
  return null;
}

function keywordProblem(schema: Readonly<Record<string, unknown>>, root: unknown): SchemaProblem | null {
  const { type, required, enum: values, $ref } = schema;
  const wrong = (key: string, message: string): SchemaProblem => ({ path: [key], message });
  const foreign = FOREIGN.find((key) => key in schema && !(key === '$id' && schema === root));
  if (foreign !== undefined)
    return wrong(foreign, 'cannot be used here: name schemas in $defs, and refer to them by $ref');
  const types = Array.isArray(type) ? type : [type];
  if (type !== undefined && (types.length === 0 || !types.every((name) => TYPES.has(name)))) {
    return wrong('type', `must be one of ${[...TYPES].join(', ')}, or a list of them`);
  }
  if (required !== undefined && !(Array.isArray(required) && required.every((name) => typeof name === 'string'))) {
    return wrong('required', 'must be a list of names');
  }
  if (values !== undefined && !(Array.isArray(values) && values.length > 0)) {
    return wrong('enum', 'must be a list of values');
  }
  const number = NUMBERS.find((key) => schema[key] !== undefined && typeof schema[key] !== 'number');
  if (number !== undefined) return wrong(number, 'must be a number');
  const count = COUNTS.find((key) => schema[key] !== undefined && !isCount(schema[key]));
  if (count !== undefined) return wrong(count, 'must be a whole number from 0 on');
  const unread = unreadPattern(schema);
  if (unread !== null) return unread;
  if ($ref !== undefined && schemaAt($ref, root) === undefined) {
    return wrong('$ref', 'must lead to a schema in this document, as "#/$defs/name" does');
  }
  return null;
}

const isCount = (value: unknown): boolean => Number.isInteger(value) && Number(value) >= 0;

/** The first pattern of the schema's own that cannot be checked. */
function unreadPattern({ pattern, patternProperties }: Readonly<Record<string, unknown>>): SchemaProblem | null {
  const names = isObject(patternProperties) ? Object.keys(patternProperties) : [];
  const own = pattern === undefined ? [] : [{ path: ['pattern'], pattern }];
  const patterns = [...own, ...names.map((name) => ({ path: ['patternProperties', name], pattern: name }))];
  for (const { path, pattern: source } of patterns) {
    if (typeof source !== 'string') return { path, message: 'must be a regular expression, as a string' };
    const read = readPattern(source);
    if ('problem' in read) return { path, message: `must be a regular expression. ${read.problem}` };
  }
  return null;
}

/**
 * Whether a provider's strict mode takes the schema: it wants every property required and no other allowed. In that mode
 * answers always fit; a schema beyond it is asked for without.
 * https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */
export function isStrict(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isStrict);
  if (!isObject(schema)) return true;
  if (STRICT_REFUSES.some((key) => key in schema)) return false;
  const { properties, required } = schema;
  if (schema['type'] === 'object' || properties !== undefined) {
    const names = isObject(properties) ? Object.keys(properties) : [];
    const all = Array.isArray(required) && names.every((name) => required.includes(name));
    if (schema['additionalProperties'] !== false || !isObject(properties) || !all) return false;
  }
  const inner = Object.entries(schema).flatMap(([key, value]) =>
    NAMED.includes(key) && isObject(value) ? Object.values(value) : [...LISTED, ...SINGLE].includes(key) ? [value] : [],
  );
  return inner.every(isStrict);
}

const STRICT_REFUSES = [
  'allOf',
  'oneOf',
  'not',
  'if',
  'then',
  'else',
  'dependentRequired',
  'dependentSchemas',
  'patternProperties',
  'propertyNames',
  'prefixItems',
  'contains',
  'uniqueItems',
  'unevaluatedProperties',
  'unevaluatedItems',
];
