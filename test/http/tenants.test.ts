import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { SCOPES } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import { newId } from '../../src/runtime/new-id.ts';
import type { Db } from '../../src/store/database.ts';
import { createTestKey, type TestKey } from '../support/keys.ts';
import { type DocumentedRoute, readRoutes } from './documented-routes.ts';
import { answerStep, askStep, claimJob } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const OPERATIONS = 300;

/** What one tenant has. The word is in its texts and nowhere else. */
type Tenant = Readonly<{ name: string; word: string; key: TestKey; ids: Readonly<Record<string, readonly string[]>> }>;

/** A tenant with a session that has worked, one at work with messages that wait, one that waits for answers, and an idle one. */
async function createTenant(api: TestApi, name: string): Promise<Tenant> {
  const key = await createTestKey(api.db, name, SCOPES);
  const word = `word-${randomUUID()}`;
  const post = async (path: string, body: object) => (await api.call('POST', path, body, key.headers)).body;
  const [worked, busy, waiting, idle] = await Promise.all(
    ['worked', 'busy', 'waiting', 'idle'].map(async (title) =>
      String((await post('/v1/sessions', { agent: 'coder', title: word, metadata: { title } }))['id']),
    ),
  );
  const send = (session: string | undefined) => post(`/v1/sessions/${session}/messages`, { content: `say ${word}` });
  const first = await send(worked);
  const answer = await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), `I say ${word}`);
  expect(answer.branch).toBe('otherwise');
  const asking = await send(waiting);
  const asked = { kind: 'approval', toolName: word } as const;
  const calls = await askStep(api.db, await claimJob(api.db, api.added.at(-1)), [asked, asked]);
  const sent = [await send(busy), await send(busy), await send(busy)];
  const runs = [first, ...sent, asking].map((message) => String(message['runId']));
  const messages = [...sent.slice(1), first].map((message) => String(message['messageId']));
  const file = await api.call('POST', '/v1/blobs', `a file of ${word}`, {
    ...key.headers,
    'content-type': 'text/plain',
  });
  const ids = {
    blob: [String(file.body['id'])],
    ses: [worked, busy, idle, waiting].map(String),
    run: [...new Set(runs)],
    msg: messages,
    call: calls.map(({ id }) => id),
    key: [],
  };
  return { name, word, key, ids: { ...ids, key: [formatId('key', key.id)] } };
}

/** Every row of every table that belongs to the tenant. The key's note of its use is not what this is about. */
async function createRowReader(db: Db): Promise<(tenant: string) => Promise<unknown>> {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.columns
    where column_name = 'tenant_id' and table_schema = 'public' and table_name <> 'api_keys' order by 1`.execute(db);
  expect(tables.length).toBeGreaterThan(8);
  return async (tenant) => {
    const contents = tables.map(
      ({ name }) => sql`select ${name}::text as name, jsonb_agg(to_jsonb(t) order by t::text) as rows
        from ${sql.table(name)} t where tenant_id = ${tenant}`,
    );
    return (await sql`${sql.join(contents, sql` union all `)}`.execute(db)).rows;
  };
}

const index = fc.nat({ max: 5 });
const operation = fc.record({
  actor: fc.constantFrom(0, 1),
  route: fc.nat(),
  /** Whose ids are in the path, and in the rest. */
  pathOf: fc.constantFrom('own', 'foreign', 'foreign', 'nobody'),
  restOf: fc.constantFrom('own', 'foreign'),
  index,
  body: fc.nat({ max: 11 }),
  query: fc.nat({ max: 3 }),
});
type Operation = typeof operation extends fc.Arbitrary<infer Value> ? Value : never;

const freshId = (kind: string): string => `${kind}_${newId().replaceAll('-', '')}${kind === 'call' ? '_0' : ''}`;

const pick = (list: readonly string[] | undefined, n: number): string => list?.[n % list.length] ?? '';

/** Bodies that some route takes, with ids where they may be. */
function bodyFor(n: number, { ids }: Tenant, at: number): object {
  const [session, message] = [pick(ids['ses'], at), pick(ids['msg'], at)];
  const bodies = [
    {},
    { content: 'hello' },
    { content: 'hello', id: message },
    { content: 'hello', delivery: 'interrupt' },
    { agent: 'coder' },
    { agent: 'coder', id: session },
    { title: 'changed', metadata: { k: 'v' } },
    { delivery: 'followup' },
    { queue: 'clear' },
    { limits: { maxSteps: 3 } },
    { decision: 'approve' },
    { output: 'done', sessionId: session },
  ];
  return bodies[n % bodies.length] ?? {};
}

/** The id for a parameter: its pattern says of what kind. What may be called by any name may be called by its own. */
function parameterOf({ name, pattern }: DocumentedRoute['parameters'][number], { ids }: Tenant, at: number): string {
  const prefix = /^\^?([a-z]+)_/.exec(pattern)?.[1] ?? (name === 'id' ? 'ses' : undefined);
  return prefix === undefined ? 'x' : pick(ids[prefix] ?? [freshId(prefix)], at);
}

function addressOf(route: DocumentedRoute, owner: Tenant, rest: Tenant, { index: at, query }: Operation): string {
  const path = route.parameters
    .filter((parameter) => parameter.in === 'path')
    .reduce((url, parameter) => url.replace(`{${parameter.name}}`, parameterOf(parameter, owner, at)), route.path);
  const search = new URLSearchParams();
  for (const parameter of route.parameters.filter(({ in: place }) => place === 'query')) {
    // Nobody here ends a run, so nobody waits for one.
    if (/^(timeoutMs|wait)$/.test(parameter.name)) search.set(parameter.name, '0');
    else if (query > 0 && parameter.pattern !== '') search.set(parameter.name, parameterOf(parameter, rest, at));
    else if (query > 1 && parameter.name === 'after') search.set('after', '0');
  }
  return `${path}?${search}`;
}

async function ask(api: TestApi, actor: Tenant, method: string, path: string, body: object | undefined) {
  const hangUp = new AbortController();
  const response = await fetch(api.url + path, {
    method,
    headers: {
      ...actor.key.headers,
      accept: method === 'GET' ? 'application/json, */*;q=0.5' : '*/*',
      ...(body && { 'content-type': 'application/json' }),
    },
    signal: hangUp.signal,
    ...(body && { body: JSON.stringify(body) }),
  });
  const isStream = /event-stream/.test(response.headers.get('content-type') ?? '');
  const text = isStream ? '' : await response.text();
  hangUp.abort();
  return { status: response.status, text };
}

/** What the actor named itself may be in the answer; nothing else of the other may. */
function expectNothingOf(other: Tenant, text: string, asked: string, name: string): void {
  expect(text, name).not.toContain(other.word);
  const unknown = Object.values(other.ids)
    .flat()
    .filter((id) => !asked.includes(id));
  for (const id of unknown) expect(text, name).not.toContain(id);
}

describe('two tenants', () => {
  test('see, change and learn nothing of each other, whatever they ask of whatever route', async () => {
    await using api = await startTestApi();
    const tenants = [await createTenant(api, 'alpha'), await createTenant(api, 'beta')] as const;
    const [alpha] = tenants;
    const document = await api.call('GET', '/openapi.json', undefined, alpha.key.headers);
    const routes = readRoutes(document.body).filter(({ isOpen }) => !isOpen);
    const nobody: Tenant = {
      ...alpha,
      ids: Object.fromEntries(['ses', 'run', 'msg', 'call', 'blob'].map((kind) => [kind, [freshId(kind)]])),
    };
    const readRows = await createRowReader(api.db);
    const seen = { foreign: new Set<number>(), own: new Set<number>() };

    const perform = async (input: Operation): Promise<void> => {
      const [actor, other] = input.actor === 0 ? tenants : [tenants[1], tenants[0]];
      const route = routes[input.route % routes.length] as DocumentedRoute;
      const owner = { own: actor, foreign: other, nobody }[input.pathOf];
      const isOwn = owner === actor || !route.path.includes('{');
      // An id that is free again may become anybody's: nothing would be foreign any more.
      if (isOwn && route.method === 'DELETE' && route.path === '/v1/sessions/{id}') return;
      const rest = input.restOf === 'own' ? actor : other;
      const path = addressOf(route, owner, rest, input);
      const body = route.hasBody ? bodyFor(input.body, rest, input.index) : undefined;
      const before = await readRows(other.name);
      const { status, text } = await ask(api, actor, route.method, path, body);
      const asked = `${path} ${JSON.stringify(body)}`;
      const name = `${actor.name} ${route.method} ${asked} → ${status}`;
      expect(await readRows(other.name), name).toEqual(before);
      expect(status, name).toBeLessThan(500);
      expectNothingOf(other, text, asked, name);
      seen[isOwn ? 'own' : 'foreign'].add(status);
      // Not found, or refused for what is wrong with the request itself: never a word on whether it exists.
      if (!isOwn) expect([400, 404, 406, 415], name).toContain(status);
    };
    await fc.assert(fc.asyncProperty(operation, perform), { numRuns: OPERATIONS, endOnFailure: true });
    expect([...seen.foreign]).toContain(404);
    expect([...seen.own]).toContain(200);
  });

  test('are answered alike for what is the other’s and for what is nobody’s, on every route', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTenant(api, 'alpha'), await createTenant(api, 'beta')];
    const document = await api.call('GET', '/openapi.json', undefined, alpha.key.headers);
    const routes = readRoutes(document.body).filter(({ path }) => path.includes('{'));
    expect(routes.length).toBeGreaterThan(10);
    const nobody: Tenant = {
      ...alpha,
      ids: Object.fromEntries(['ses', 'run', 'msg', 'call', 'blob'].map((kind) => [kind, [freshId(kind)]])),
    };
    const input = { actor: 1, route: 0, pathOf: 'foreign', restOf: 'own', index: 1, body: 0, query: 0 } as const;
    for (const route of routes) {
      for (const n of [0, 1, 6, 7, 8, 10, 11]) {
        const body = route.hasBody ? bodyFor(n, beta, 0) : undefined;
        const answer = async (owner: Tenant) => {
          const path = addressOf(route, owner, beta, input);
          const { status, text } = await ask(api, beta, route.method, path, body);
          return { status, text: text.replaceAll(/(ses|run|msg|call|blob)_[0-9a-f]{32}(_\d+)?/g, '$1') };
        };
        const name = `${route.method} ${route.path} ${JSON.stringify(body)}`;
        const foreign = await answer(alpha);
        expect(foreign, name).toEqual(await answer(nobody));
        expect([400, 404], name).toContain(foreign.status);
      }
    }
  });

  test('have the same idempotency keys and queries of their own', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTenant(api, 'alpha'), await createTenant(api, 'beta')];
    const create = (tenant: Tenant) =>
      api.call('POST', '/v1/sessions', { agent: 'coder' }, { ...tenant.key.headers, 'idempotency-key': 'k' });
    const [first, second] = [await create(alpha), await create(beta)];
    expect(first.body['id']).not.toBe(second.body['id']);
    expect(second.headers.get('idempotency-replayed')).toBeNull();
    const list = async (tenant: Tenant, path: string) =>
      (await api.call('GET', path, undefined, tenant.key.headers)).text;
    const [session] = alpha.ids['ses'] ?? [];
    expect(await list(beta, `/v1/runs?sessionId=${session}`)).toBe('{"runs":[],"nextCursor":null}');
    expect(await list(beta, '/v1/sessions')).not.toContain(alpha.word);
    expect(await list(alpha, '/v1/sessions')).toContain(alpha.word);
  });
});
