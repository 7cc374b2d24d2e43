import { type Fields, isFields } from './read-json.ts';

const COMBINATIONS = ['anyOf', 'oneOf', 'allOf', 'not', 'if', 'then', 'else', 'enum', 'const'];
/** Keywords of JSON Schema that say nothing of the shape, and that some providers do not know. */
const UNKNOWN = [
  '$schema',
  '$id',
  '$comment',
  '$anchor',
  'format',
  'default',
  'examples',
  'patternProperties',
  'dependentRequired',
  'dependentSchemas',
  'unevaluatedProperties',
  'propertyNames',
  'contentEncoding',
  'contentMediaType',
];
/** Anthropic's rule for the names of properties. */
const PROPERTY_NAME = /^[a-zA-Z0-9_.-]{1,64}$/;
const MAX_DEPTH = 32;

/**
 * A wider schema that providers with a small dialect take: an object without combinations at its root, whose branches
 * lend it their properties. What the tool itself demands is still checked where the call arrives.
 */
export function simpleSchema(schema: unknown): Fields {
  const root = isFields(schema) ? schema : {};
  const branches = ['anyOf', 'oneOf', 'allOf']
    .flatMap((key) => (Array.isArray(root[key]) ? root[key] : []))
    .filter(isFields);
  const properties = Object.assign(
    {},
    ...branches.map(({ properties: inner }) => (isFields(inner) ? inner : {})),
    isFields(root['properties']) ? root['properties'] : {},
  );
  const left = Object.fromEntries(Object.entries(root).filter(([key]) => !COMBINATIONS.includes(key)));
  return simpler({ ...left, type: 'object', properties }, 0);
}

function simpler(schema: Fields, depth: number): Fields {
  if (depth > MAX_DEPTH) return {};
  const kept = Object.entries(schema).filter(([key]) => !UNKNOWN.includes(key));
  const simplified = Object.fromEntries(kept.map(([key, value]) => [key, simplerValue(key, value, depth + 1)]));
  const { type } = simplified;
  const isList = type === 'array' || (Array.isArray(type) && type.includes('array'));
  // OpenAI refuses a list without it.
  if (isList && simplified['items'] === undefined) simplified['items'] = {};
  if (!Array.isArray(simplified['required']) || !isFields(simplified['properties'])) return simplified;
  const names = Object.keys(simplified['properties']);
  return { ...simplified, required: simplified['required'].filter((name: unknown) => names.includes(String(name))) };
}

function simplerValue(key: string, value: unknown, depth: number): unknown {
  if (key === 'properties' && isFields(value)) {
    const named = Object.entries(value).filter(([name]) => PROPERTY_NAME.test(name));
    return Object.fromEntries(named.map(([name, inner]) => [name, isFields(inner) ? simpler(inner, depth) : inner]));
  }
  if (['enum', 'const', 'required', 'type'].includes(key)) return value;
  if (Array.isArray(value)) return value.map((inner) => (isFields(inner) ? simpler(inner, depth) : inner));
  return isFields(value) ? simpler(value, depth) : value;
}
