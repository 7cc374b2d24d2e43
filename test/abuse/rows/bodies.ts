import { z } from 'zod';
import { type DocumentedRoute, readRoutes, readSchemas } from '../../http/documented-routes.ts';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import { holdRun, release } from '../attack/held-run.ts';
import type { Row } from '../row.ts';

/** Just below the API's limit on the routes with the largest bodies. */
const BYTES = 16_000_000;
const DEEP = 4_000_000;

const objectSchema = z.looseObject({
  $ref: z.string().optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
});

type Shape = (bytes: number) => string;

const wide =
  (piece: string): Shape =>
  (bytes) =>
    `[${`${piece},`.repeat(Math.floor(bytes / (piece.length + 1)) - 1)}${piece}]`;

const deep: Shape = () => `${'['.repeat(DEEP)}${']'.repeat(DEEP)}`;

const manyKeys: Shape = (bytes) => {
  const keys = Array.from({ length: Math.floor(bytes / 14) }, (_, no) => `"k${String(no).padStart(8, '0')}":1`);
  return `{${keys.join(',')}}`;
};

/** Posts every shape to every route that takes JSON, in the place of each of its fields and of the whole body. */
function post(shapes: readonly Shape[]): (attacker: Attacker) => Promise<void> {
  return async (attacker) => {
    const { session, run } = await holdRun(attacker, 'bodies');
    const document: unknown = JSON.parse((await attacker.ask('/openapi.json')).text);
    const schemas = readSchemas(document);
    const routes = readRoutes(document).filter(({ bodies }) => bodies['application/json'] !== undefined);
    const filled = (path: string): string =>
      path
        .replace('/runs/{id}', `/runs/${run}`)
        .replace(/\{[^}]+\}/g, (name) => (name === '{id}' ? session : 'call_0'));
    const values = shapes.map((shape) => shape(BYTES));
    const bodies = routes.flatMap((route) =>
      fieldsOf(route, schemas).flatMap((field) =>
        values.map((value) => ({ route, field, body: field === null ? value : `{"${field}":${value}}` })),
      ),
    );
    // A random order, so that neighbouring requests are of different routes.
    const turns = bodies.map((body) => ({ body, at: attacker.random.next() })).toSorted((a, b) => a.at - b.at);
    for (const { body: it } of turns) {
      const { method, path } = it.route;
      const { status, text } = await attacker.ask(filled(path), { method, body: it.body });
      // The API may close the connection of a body that it refuses before its end: status 0.
      attacker.count(`bodies answered ${status}`);
      if (status === 500) {
        const where = it.field === null ? 'as the whole body' : `as ${it.field}`;
        attacker.breach(
          `${method} ${path} answered ${status} to ${it.body.slice(0, 30)}… ${where}: ${text.slice(0, 150)}`,
        );
      }
    }
    await release(attacker, 'bodies');
  };
}

/** The fields that a body may have; null is the body as a whole. */
function fieldsOf({ bodies }: DocumentedRoute, schemas: Readonly<Record<string, unknown>>): (string | null)[] {
  const given = objectSchema.parse(bodies['application/json']);
  const named = given.$ref === undefined ? given : objectSchema.parse(schemas[given.$ref.split('/').at(-1) ?? '']);
  return [null, ...Object.keys(named.properties ?? {})];
}

const row = (name: string, about: string, shapes: readonly Shape[]): Row => ({
  name,
  about,
  attack: attackBy(post(shapes)),
});

/** One request brings more than it should. */
export const BODIES: readonly Row[] = [
  row('wide-bodies', '16 MB of [1,1,…] and [{},{},…] as each field of each route', [wide('1'), wide('{}')]),
  row('bodies-of-keys', '16 MB of a million unknown keys, likewise', [manyKeys]),
  row('deep-bodies', '4 000 000 levels of JSON, likewise', [deep]),
];
