import { MAX_BODY_BYTES, MAX_JSON_VALUES } from '../../src/domain/tunables.ts';
import type { DocumentedRoute } from '../http/documented-routes.ts';
import type { Random } from '../support/random.ts';
import { createValues, type Schema } from './schema-values.ts';

/** A body about as large as its route takes. */
export type LargeBody = Readonly<{ route: DocumentedRoute; where: string; shape: string; text: () => string }>;

/** A number of JSON values slightly below the limit of a request. */
const VALUES = MAX_JSON_VALUES - 200;

const list = (item: string, count: number): string => `[${Array.from({ length: count }, () => item).join(',')}]`;
const keys = (count: number, name: (n: number) => string): string =>
  `{${Array.from({ length: count }, (_, n) => `"${name(n)}":1`).join(',')}}`;
const file = (bytes: number, char: string): string =>
  `[{"type":"file","url":"data:image/png;base64,${char.repeat(bytes - (bytes % 4))}"}]`;

/** Makers of the JSON that takes the place of a value. `bytes`: the largest size that the route allows there. */
const SHAPES: Readonly<Record<string, (bytes: number) => string>> = {
  'many numbers': () => list('1', VALUES),
  'many more numbers than are taken': (bytes) => list('1', bytes / 2 - 10),
  'many empty objects': () => list('{}', VALUES),
  'many wrong parts': () => list('{"type":"text","text":5}', VALUES / 3),
  'many texts': () => list('{"type":"text","text":"x"}', VALUES / 3),
  'many messages': () => list('{"role":"user","content":"x"}', VALUES / 3),
  'many calls': () =>
    list('{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{}}]}', VALUES / 7),
  'many lists': () => list('[[],[]]', VALUES / 3),
  'many keys': () => keys(VALUES, (n) => `k${n}`),
  'many odd keys': () => keys(VALUES, (n) => `__proto__${n % 2 === 0 ? '' : n}`),
  'long keys': (bytes) => keys(1_000, (n) => `${n}${'k'.repeat(bytes / 1_000 - 20)}`),
  'many levels': () => `${'['.repeat(100)}${']'.repeat(100)}`,
  'too many levels': (bytes) => '['.repeat(bytes),
  'levels of objects': () => `${'{"a":'.repeat(99)}1${'}'.repeat(99)}`,
  'a long text': (bytes) => `"${'x'.repeat(bytes)}"`,
  'a text of NUL': (bytes) => `"${'\\u0000'.repeat(bytes / 6)}"`,
  'a text of half characters': (bytes) => `"${'\\ud800'.repeat(bytes / 6)}"`,
  'a text of two bytes each': (bytes) => `"${'ü'.repeat(bytes / 2)}"`,
  'long texts': (bytes) => list(`"${'x'.repeat(bytes / 100 - 10)}"`, 100),
  'a long number': (bytes) => '1'.repeat(bytes),
  'white space': (bytes) => ' '.repeat(bytes),
  'a large file': (bytes) => file(bytes - 100, 'A'),
  'a large file that is none': (bytes) => file(bytes - 100, '!'),
};

/** Room for the rest of the body around a value. */
const AROUND_BYTES = 10_000;
const PLACE = '"@here"';
/** Places in a body that may hold long content. Some routes take larger bodies for them. */
const CONTENT = ['the whole', 'content', 'output', 'messages', 'message'];

/** Every shape as the whole body, and in every field, of each route that takes JSON. */
export function largeBodies(
  routes: readonly DocumentedRoute[],
  schemas: Readonly<Record<string, Schema>>,
  random: Random,
): LargeBody[] {
  const values = createValues(schemas, random, (_, name) => (name === 'agent' || name === 'model' ? 'coder' : 'x'));
  return routes.flatMap((route) => {
    const schema = route.bodies['application/json'];
    if (schema === undefined) return [];
    const { properties = {}, required = [] } = resolve(schema, schemas);
    // The other fields are the required ones alone, so that a route does not refuse one of them before the large field.
    const needed = Object.entries(properties).filter(([name]) => required.includes(name));
    const base = Object(values.valid({ type: 'object', properties: Object.fromEntries(needed), required }));
    const fields = Object.keys(properties).map((name) => [name, JSON.stringify({ ...base, [name]: '@here' })] as const);
    const bodies = [['the whole', PLACE] as const, ...fields];
    return bodies.flatMap(([where, body]) => {
      const takesFiles = route.statuses.includes(413) && CONTENT.includes(where);
      const bytes = (takesFiles ? route.maxBytes : Math.min(route.maxBytes, MAX_BODY_BYTES)) - AROUND_BYTES;
      return Object.entries(SHAPES).map(([shape, make]) => ({
        route,
        where,
        shape,
        text: () => body.replace(PLACE, () => make(bytes)),
      }));
    });
  });
}

/** Follows the schema's reference, and adds the properties of all of its variants. */
function resolve(schema: Schema, schemas: Readonly<Record<string, Schema>>): Schema {
  const named = schema.$ref === undefined ? undefined : schemas[schema.$ref.split('/').at(-1) ?? ''];
  if (named !== undefined) return resolve(named, schemas);
  const variants = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  const merged = variants.map((variant) => resolve(variant, schemas).properties ?? {});
  return { ...schema, properties: Object.assign({}, schema.properties, ...merged) };
}
