import { z } from 'zod';
import { isWrittenNumber, objectOf } from './exact-json.ts';

/** A JSON Schema whose root says that it is one of an object: providers take no other root. */
export type ObjectSchema = Readonly<{ type: 'object' } & Record<string, unknown>>;

/** A keyword that is wrong, by its path. */
export type SchemaProblem = Readonly<{ path: readonly string[]; message: string }>;

export type ReadSchema = Readonly<{ schema: ObjectSchema } | { problem: SchemaProblem }>;

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isWrittenNumber(value);

/** Keywords that say nothing of a value. Beside a `$ref` those of the root count. */
const OF_THE_ROOT: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
]);

/**
 * The schema as providers take it, with the same meaning: a root that only refers to a definition, as schemas of classes
 * that hold themselves do, has the keywords of that definition; one without a type has it. The same object where nothing
 * changes. Pure.
 */
export function toObjectSchema(value: unknown): ReadSchema {
  if (!isFields(value)) return { problem: { path: [], message: 'must be a JSON Schema: an object' } };
  if (!mayBeObject(value, value, new Map())) {
    return { problem: { path: ['type'], message: 'must be "object": providers take no other root' } };
  }
  const root = resolved(value);
  if (root === null) return { problem: { path: ['$ref'], message: 'leads back to itself, and to no schema' } };
  return { schema: root['type'] === 'object' ? (root as ObjectSchema) : typed(root) };
}

/** A transform of zod to such a schema. zod itself does not read it: it would move keys. */
export function schemaBy(read: (value: unknown) => ReadSchema) {
  return (value: unknown, ctx: z.RefinementCtx): ObjectSchema => {
    const result = read(value);
    if ('schema' in result) return result.schema;
    const { path, message } = result.problem;
    ctx.addIssue({ code: 'custom', path: [...path], message });
    return z.NEVER;
  };
}

/** A JSON Schema before it is read. */
export const givenSchema = z.custom<Readonly<Record<string, unknown>>>();

function typed(root: Fields): ObjectSchema {
  const rest = Object.entries(root).filter(([key, value]) => key !== 'type' || value != null);
  const entries = rest.some(([key]) => key === 'type') ? rest : [['type', 'object'] as const, ...rest];
  return objectOf(entries.map(([key, value]) => [key, key === 'type' ? 'object' : value])) as ObjectSchema;
}

/** Longest way that is looked along: a schema behind it counts as one that an object may fit. */
const MAX_STEPS = 500;

/** Whether an object can fit it. Each schema is looked at once, also where it refers to itself. */
function mayBeObject(schema: unknown, root: Fields, verdicts: Map<unknown, boolean>): boolean {
  if (!isFields(schema)) return schema !== false;
  const before = verdicts.get(schema);
  if (before !== undefined || verdicts.size >= MAX_STEPS) return before ?? true;
  verdicts.set(schema, true);
  const may = canHoldObject(schema, root, (inner) => mayBeObject(inner, root, verdicts));
  verdicts.set(schema, may);
  return may;
}

function canHoldObject(schema: Fields, root: Fields, may: (inner: unknown) => boolean): boolean {
  const { type, $ref, allOf, enum: values } = schema;
  if (type != null && ![type].flat().includes('object')) return false;
  if (Array.isArray(values) && !values.some(isFields)) return false;
  if ('const' in schema && !isFields(schema['const'])) return false;
  if ($ref !== undefined && !may(schemaAt($ref, root))) return false;
  if (Array.isArray(allOf) && !allOf.every(may)) return false;
  const choices = [schema['anyOf'], schema['oneOf']].filter(Array.isArray);
  return choices.every((choice) => choice.length === 0 || choice.some(may));
}

/** The root without its reference. Null: it leads back to itself. */
function resolved(schema: Fields): Fields | null {
  const followed = new Set<unknown>([schema]);
  let root = schema;
  for (;;) {
    const { ref, rest } = splitReference(root);
    const target = ref === undefined ? undefined : schemaAt(ref, schema);
    if (!isFields(target)) return root;
    if (followed.has(target)) return null;
    followed.add(target);
    const joint = joined(rest, target);
    if (joint === null) return root;
    root = joint;
  }
}

/** Older generators write a reference as a list of one: `allOf: [{ $ref }]`. */
function splitReference(root: Fields): Readonly<{ ref: unknown; rest: Fields }> {
  const { $ref, allOf } = root;
  if ($ref !== undefined) return { ref: $ref, rest: without(root, '$ref') };
  const only: unknown = Array.isArray(allOf) && allOf.length === 1 ? allOf[0] : undefined;
  const isReference = isFields(only) && Object.keys(only).length === 1;
  return { ref: isReference ? only['$ref'] : undefined, rest: without(root, 'allOf') };
}

const without = (fields: Fields, key: string): Fields =>
  objectOf(Object.entries(fields).filter(([name]) => name !== key));

/** Null: both have a keyword, and one object cannot say that both hold. */
function joined(rest: Fields, target: Fields): Fields | null {
  const entries = Object.entries(target).filter(([key]) => !(key in rest && OF_THE_ROOT.has(key)));
  const isTaken = entries.some(([key]) => key in rest && key !== 'type');
  return isTaken ? null : objectOf([...Object.entries(rest), ...entries]);
}

/** The schema to which a reference leads in its document. Undefined: to none. */
export function schemaAt(ref: unknown, root: unknown): unknown {
  if (typeof ref !== 'string' || !/^#(\/|$)/.test(ref)) return undefined;
  const found = ref
    .split('/')
    .slice(1)
    .reduce<unknown>((at, step) => fieldOf(at, unescaped(step)) ?? fieldOf(at, unescaped(percentDecoded(step))), root);
  return typeof found === 'boolean' || isFields(found) ? found : undefined;
}

const fieldOf = (value: unknown, key: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined;

const unescaped = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~');

/** A reference is the fragment of a URI, where a `%` is written as `%25`. */
function percentDecoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
