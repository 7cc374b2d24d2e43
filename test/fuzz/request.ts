import type { DocumentedRoute } from '../http/documented-routes.ts';
import { freshId, type Tenant } from '../http/two-tenants.ts';
import type { Random } from '../support/random.ts';
import { createValues, ODD_TEXTS, type Schema } from './schema-values.ts';

/** A request that is about to be made. */
export type FuzzRequest = Readonly<{
  method: string;
  /** Null: no route knows this method, or the path is not one of the document's. */
  route: DocumentedRoute | null;
  path: string;
  headers: Readonly<Record<string, string>>;
  body: string | undefined;
  /** True: the path names a thing of the actor's own, or no thing of any tenant. */
  isOwn: boolean;
}>;

export type Making = Readonly<{
  routes: readonly DocumentedRoute[];
  schemas: Readonly<Record<string, Schema>>;
  actor: Tenant;
  other: Tenant;
  random: Random;
  /** The route to ask; absent: any. */
  due?: DocumentedRoute | undefined;
}>;

const AGENTS = ['coder', 'clerk'];
const METHODS = ['GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'OPTIONS', 'HEAD'];
/** Few keys, so that requests repeat them. */
const IDEMPOTENCY_KEYS = ['first', 'second', 'third'];
/** Parameters that make a request wait for a run. They get short times, in milliseconds. */
const WAITS = ['timeoutMs', 'wait'];
const WAIT_VALUES = ['0', '20'];
/** By path: makes a body that puts a session to work. The façades may stream the answer. */
const TALKS: Readonly<Record<string, (making: Making) => object>> = {
  '/v1/chat/completions': completionBody,
  '/v1/responses': responseBody,
  '/api/chat': chatBody,
  '/v1/sessions/{id}/messages': ({ actor }) => ({ content: `say ${actor.word}` }),
};
const isTalk = ({ method, path }: DocumentedRoute): boolean => method === 'POST' && TALKS[path] !== undefined;
const isFollowed = ({ method, path }: DocumentedRoute): boolean => method === 'GET' && /\/(events|stream)$/.test(path);

/** Picks each protocol as often as any other one, also if it has more routes. */
function talkRoute({ random, routes }: Making): DocumentedRoute {
  const path = random.pick([...Object.keys(TALKS), 'followed']);
  return random.pick(
    routes.filter((each) => (path === 'followed' ? isFollowed(each) : isTalk(each) && each.path === path)),
  );
}

/** Makes a random request from the API's own document: some follow it, others break it. */
export function makeRequest(making: Making): FuzzRequest {
  const { random, routes } = making;
  const route = making.due ?? (random.chance(0.3) ? talkRoute(making) : random.pick(routes));
  const isStray = random.chance(0.04);
  const method = isStray ? random.pick(METHODS) : route.method;
  const [whose, path] = pathOf(route, making);
  const known = routes.find((each) => each.path === route.path && each.method === (method === 'HEAD' ? 'GET' : method));
  const { headers, body } = contentOf(method === route.method ? route : null, method, making);
  return {
    method,
    route: whose === 'odd' ? null : (known ?? null),
    path: `${path}?${queryOf(route, making)}`,
    headers: { ...headersOf(route, making), ...headers },
    body,
    isOwn: whose === 'own' || !namesSomebodys(route),
  };
}

/** Whether the path has the id of a tenant's thing. Names of chats do not count: each tenant has its own. */
const namesSomebodys = ({ parameters }: DocumentedRoute): boolean =>
  parameters.some((parameter) => parameter.in === 'path' && prefixOf(parameter.pattern) !== undefined);

type Whose = 'own' | 'foreign' | 'nobody' | 'odd';

function pathOf(route: DocumentedRoute, making: Making): [Whose, string] {
  const { random } = making;
  const whose = random.pick<Whose>(['own', 'own', 'own', 'own', 'own', 'own', 'foreign', 'foreign', 'nobody', 'odd']);
  const path = route.parameters
    .filter((parameter) => parameter.in === 'path')
    .reduce((url, { name, pattern }) => url.replace(`{${name}}`, () => idIn(pattern, whose, making)), route.path);
  return [path.includes('{') || path === route.path ? 'own' : whose, path];
}

function idIn(pattern: string, whose: Whose, { actor, other, random }: Making): string {
  const prefix = prefixOf(pattern) ?? random.pick(['chat', 'ses']);
  if (whose === 'odd') return encodeURIComponent(random.pick(ODD_TEXTS).slice(0, 2_000).toWellFormed());
  const ids = whose === 'nobody' ? [] : ((whose === 'own' ? actor : other).ids[prefix] ?? []);
  if (ids.length === 0) return freshId(prefix);
  // Often one of the first ids, so that some things get requests again and again.
  return random.pick(random.chance(0.6) ? ids.slice(0, 6) : ids);
}

const prefixOf = (pattern: string): string | undefined => /^\^?\(?([a-z]+)_/.exec(pattern)?.[1];

function queryOf(route: DocumentedRoute, making: Making): URLSearchParams {
  const { random } = making;
  const search = new URLSearchParams();
  for (const { name, schema } of route.parameters.filter((parameter) => parameter.in === 'query')) {
    const isOdd = random.chance(0.2);
    if (isOdd) search.set(name, random.pick(ODD_TEXTS).slice(0, 500).toWellFormed());
    else if (WAITS.includes(name)) search.set(name, random.pick(WAIT_VALUES));
    else if (random.chance(0.4)) search.set(name, String(valuesFor(making).valid(schema)).slice(0, 500).toWellFormed());
  }
  if (random.chance(0.03)) search.set('unknown', 'x');
  return search;
}

function headersOf(route: DocumentedRoute, { actor, random, ...making }: Making): Record<string, string> {
  const headers: Record<string, string> = {
    accept: random.pick(['application/json', '*/*', 'text/event-stream', 'image/*;q=0']),
    ...(random.chance(0.03) ? { authorization: 'Bearer baton_nobody' } : random.chance(0.03) ? {} : actor.key.headers),
  };
  for (const { name } of route.parameters.filter((parameter) => parameter.in === 'header')) {
    if (name === 'idempotency-key' && random.chance(0.15)) headers[name] = random.pick(IDEMPOTENCY_KEYS);
    else if (name === 'last-event-id' && random.chance(0.3)) headers[name] = random.pick(['0', '3', '-1', 'a']);
    else if (name === 'x-session-id' && random.chance(0.3)) {
      headers[name] = idIn('ses_', random.pick(['own', 'foreign', 'nobody']), { actor, random, ...making });
    }
  }
  return headers;
}

const OTHER_TYPES = ['text/plain', 'application/json; charset=utf-16', 'x/y', 'multipart/form-data'];

function contentOf(
  route: DocumentedRoute | null,
  method: string,
  making: Making,
): Pick<FuzzRequest, 'body'> & { headers: Record<string, string> } {
  const { random } = making;
  if (method === 'GET' || method === 'HEAD') return { headers: {}, body: undefined };
  const known = Object.entries(route?.bodies ?? {});
  const [type, schema] = known.length === 0 ? ['application/json', {}] : random.pick(known);
  if (random.chance(0.05)) return { headers: {}, body: undefined };
  const headers = { 'content-type': random.chance(0.05) ? random.pick(OTHER_TYPES) : type };
  if (!type.includes('json')) return { headers, body: random.pick([...ODD_TEXTS, 'a file']) };
  if (random.chance(0.05)) return { headers, body: random.pick([...ODD_TEXTS, '{', '{"content":', '[1,]']) };
  const talk = route !== null && isTalk(route) && random.chance(0.75) ? TALKS[route.path] : undefined;
  if (talk !== undefined) return { headers, body: JSON.stringify(talk(making)) };
  const values = valuesFor(making);
  return { headers, body: JSON.stringify(random.chance(0.6) ? values.valid(schema) : values.broken(schema)) };
}

function completionBody({ actor, random }: Making): object {
  const messages = [{ role: 'user', content: `${random.pick(['say', 'tell me'])} ${actor.word} ${random.next()}` }];
  const usage = random.chance(0.5) && { stream_options: { include_usage: true } };
  return { model: random.pick(AGENTS), messages, ...(random.chance(0.7) && { stream: true, ...usage }) };
}

function responseBody({ actor, random }: Making): object {
  const input = `${random.pick(['say', 'tell me'])} ${actor.word} ${random.next()}`;
  const conversation = random.chance(0.5) && { conversation: random.pick(['first', 'second']) };
  return { model: random.pick(AGENTS), input, ...conversation, ...(random.chance(0.7) && { stream: true }) };
}

function chatBody(making: Making): object {
  const { actor, random } = making;
  const parts = [{ type: 'text', text: `say ${actor.word}` }];
  const delivery = random.chance(0.3) && { delivery: random.pick(['steer', 'interrupt', 'reject']) };
  const id = random.chance(0.5) ? random.pick(['first chat', 'second chat']) : idIn('ses_', 'own', making);
  return { id, agent: random.pick(AGENTS), message: { role: 'user', parts }, ...delivery };
}

function valuesFor(making: Making) {
  const { actor, schemas, random } = making;
  return createValues(schemas, random, (pattern, name) => {
    const prefix = prefixOf(pattern);
    if (prefix !== undefined) {
      return idIn(pattern, random.pick(['own', 'own', 'foreign', 'nobody', 'nobody', 'nobody']), making);
    }
    if (name === 'agent' || name === 'model') return random.pick(AGENTS);
    if (name === 'expiresAt' && random.chance(0.8)) return '2199-01-31T12:00:00Z';
    if (random.chance(0.1)) return random.pick(ODD_TEXTS);
    return random.pick(['hello', `say ${actor.word}`, 'x']);
  });
}
