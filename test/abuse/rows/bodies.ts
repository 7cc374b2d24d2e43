import { z } from 'zod';
import { MAX_JSON_DEPTH, MAX_JSON_VALUES } from '../../../src/domain/tunables.ts';
import { type DocumentedRoute, readRoutes, readSchemas } from '../../http/documented-routes.ts';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import { holdRun, release } from '../attack/held-run.ts';
import type { Row } from '../row.ts';

/** Room for the JSON around a value: a body above the route's limit is refused before it is read. */
const AROUND_BYTES = 10_000;

/** A little below the limit of JSON values, so that the body is parsed and validated. */
const VALUES = MAX_JSON_VALUES - 200;
const LEVELS = MAX_JSON_DEPTH - 1;

/** A busy machine may not send every body once in this time. */
const ONCE_WITHIN_MS = 45_000;

/** A body that the service refuses unread does not count as an attack. */
const NOT_READ = 'The body is larger than';

const objectSchema = z.looseObject({
  $ref: z.string().optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
});

/** A JSON value of at most this many bytes. */
type Shape = (bytes: number) => string;

const wide =
  (piece: string, count: number): Shape =>
  (bytes) =>
    `[${`${piece},`.repeat(Math.min(count, bytes / (piece.length + 1)) - 2)}${piece}]`;

const keys =
  (count: number): Shape =>
  (bytes) => {
    const length = Math.floor(Math.min(count, bytes / 14));
    return `{${Array.from({ length }, (_, no) => `"k${String(no).padStart(8, '0')}":1`).join(',')}}`;
  };

const levels = (count: number): string => `${'['.repeat(count)}${']'.repeat(count)}`;

type Body = Readonly<{ route: DocumentedRoute; field: string | null; shape: Shape }>;

/**
 * Posts every shape at its route's maximum size to every route that takes JSON: as the whole body and in each of its
 * fields. It goes through the list once if there is time, then repeats until the attack has lasted long enough.
 */
function post(shapes: readonly Shape[]): (attacker: Attacker) => Promise<void> {
  return async (attacker) => {
    const { session, run } = await holdRun(attacker, 'bodies');
    const filled = (path: string): string =>
      path
        .replace('/runs/{id}', `/runs/${run}`)
        .replace(/\{[^}]+\}/g, (name) => (name === '{id}' ? session : 'call_0'));
    const bodies = inRandomOrder(attacker, bodiesOf(JSON.parse((await attacker.ask('/openapi.json')).text), shapes));
    const textOf = textsOnce();
    const isLate = AbortSignal.timeout(ONCE_WITHIN_MS);
    let sent = 0;
    await attacker.inLanes(1, async () => {
      for (const body of bodies) {
        if (attacker.isOver() && (sent >= bodies.length || isLate.aborted)) return;
        await postBody(attacker, filled(body.route.path), body, textOf(body));
        sent++;
      }
    });
    attacker.count('bodies of a whole pass', bodies.length);
    await release(attacker, 'bodies');
  };
}

function bodiesOf(document: unknown, shapes: readonly Shape[]): Body[] {
  const schemas = readSchemas(document);
  const routes = readRoutes(document).filter(({ bodies }) => bodies['application/json'] !== undefined);
  return routes.flatMap((route) =>
    fieldsOf(route, schemas).flatMap((field) => shapes.map((shape) => ({ route, field, shape }))),
  );
}

/** Random order spreads consecutive requests over the routes. */
const inRandomOrder = ({ random }: Attacker, bodies: readonly Body[]): Body[] =>
  bodies
    .map((body) => ({ body, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ body }) => body);

/** Caches the texts, because building a large one takes longer than sending it. */
function textsOnce(): (body: Body) => string {
  const made = new Map<Shape, Map<number, string>>();
  return ({ route, field, shape }) => {
    const bytes = route.maxBytes - AROUND_BYTES;
    const sizes = made.get(shape) ?? new Map<number, string>();
    const value = sizes.get(bytes) ?? shape(bytes);
    made.set(shape, sizes.set(bytes, value));
    return field === null ? value : `{"${field}":${value}}`;
  };
}

async function postBody(attacker: Attacker, path: string, { route, field }: Body, body: string): Promise<void> {
  const { status, text } = await attacker.ask(path, { method: route.method, body });
  // Status 0: the API may close the connection before it has read a body that it refuses.
  attacker.count(`bodies answered ${status}`);
  const what = `${route.method} ${route.path}`;
  if (text.includes(NOT_READ)) throw new Error(`${what} refused its body by its size: ${text.slice(0, 150)}`);
  if (status !== 500) return;
  const where = field === null ? 'as the whole body' : `as ${field}`;
  attacker.breach(`${what} answered ${status} to ${body.slice(0, 30)}… ${where}: ${text.slice(0, 150)}`);
}

/** The names of the fields of a body; null stands for the whole body. */
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

/** One request that is too large or too deep. */
export const BODIES: readonly Row[] = [
  row('wide-bodies', 'as many of [1,1,…] and [{},{},…] as a body may have, and far more, as each field of each route', [
    wide('1', Infinity),
    wide('{}', Infinity),
    wide('{}', VALUES),
  ]),
  row('bodies-of-keys', 'as many unknown keys as a body may have, and a million, likewise', [
    keys(VALUES),
    keys(Infinity),
  ]),
  row('deep-bodies', 'many values of as many levels as they may have, and one of millions, likewise', [
    wide(levels(LEVELS), VALUES / LEVELS),
    (bytes) => levels(bytes / 2),
  ]),
];
