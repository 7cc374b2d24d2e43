import { z } from 'zod';
import { MAX_JSON_DEPTH, MAX_JSON_VALUES } from '../../../src/domain/tunables.ts';
import { maxBytesOf } from '../../fuzz/large-bodies.ts';
import { type DocumentedRoute, readRoutes, readSchemas } from '../../http/documented-routes.ts';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import { holdRun, release } from '../attack/held-run.ts';
import type { Row } from '../row.ts';

/** Room below a route's limit for what stands around a value: a larger body is refused before it is read. */
const AROUND_BYTES = 10_000;

/** A little less than what is counted as too much: such a body goes on to be parsed and validated. */
const VALUES = MAX_JSON_VALUES - 200;
const LEVELS = MAX_JSON_DEPTH - 1;

/** A busy machine, which leaves little to the attacker, does not come to every body in this time. */
const ONCE_WITHIN_MS = 45_000;

/** An attack by a body that the service does not read is none. */
const NOT_READ = 'The body is larger than';

const objectSchema = z.looseObject({
  $ref: z.string().optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
});

/** A value in the form of JSON, of at most so many bytes. */
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
 * Posts every shape, as large as the route takes, to every route that takes JSON, in the place of each of its fields and
 * of the whole body, once if there is time; again and again until the attack has lasted as long as it should.
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

/** Neighbouring requests are of different routes then. */
const inRandomOrder = ({ random }: Attacker, bodies: readonly Body[]): Body[] =>
  bodies
    .map((body) => ({ body, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ body }) => body);

/** Making a large text takes longer than sending it. */
function textsOnce(): (body: Body) => string {
  const made = new Map<Shape, Map<number, string>>();
  return ({ route, field, shape }) => {
    const bytes = maxBytesOf(route.path) - AROUND_BYTES;
    const sizes = made.get(shape) ?? new Map<number, string>();
    const value = sizes.get(bytes) ?? shape(bytes);
    made.set(shape, sizes.set(bytes, value));
    return field === null ? value : `{"${field}":${value}}`;
  };
}

async function postBody(attacker: Attacker, path: string, { route, field }: Body, body: string): Promise<void> {
  const { status, text } = await attacker.ask(path, { method: route.method, body });
  // The API may close the connection of a body that it refuses before its end: status 0.
  attacker.count(`bodies answered ${status}`);
  const what = `${route.method} ${route.path}`;
  if (text.includes(NOT_READ)) throw new Error(`${what} refused its body by its size: ${text.slice(0, 150)}`);
  if (status !== 500) return;
  const where = field === null ? 'as the whole body' : `as ${field}`;
  attacker.breach(`${what} answered ${status} to ${body.slice(0, 30)}… ${where}: ${text.slice(0, 150)}`);
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
