import { describe, expect, test } from 'vitest';
import { type DocumentedRoute, readRoutes } from './documented-routes.ts';
import { startTestApi, type TestApi } from './test-api.ts';
import { createTenant, freshId, type Tenant } from './two-tenants.ts';

const pick = (list: readonly string[] | undefined, n: number): string => list?.[n % list.length] ?? '';

/** One of several bodies, with the tenant's ids where a field takes one. Each body is for some of the routes. */
function bodyFor(n: number, { ids }: Tenant, at: number): object {
  const [session, message] = [pick(ids['ses'], at), pick(ids['msg'], at)];
  const bodies = [
    {},
    { content: 'hello' },
    { content: 'hello', id: message },
    { content: 'hello', delivery: 'interrupt' },
    { agent: 'coder' },
    { title: 'changed', metadata: { k: 'v' } },
    { delivery: 'followup' },
    { queue: 'clear' },
    { limits: { maxSteps: 3 } },
    { decision: 'approve' },
    { output: 'done', sessionId: session },
  ];
  return bodies[n % bodies.length] ?? {};
}

/** The id for a parameter, of the kind that its pattern names. An `id` without a pattern is that of a session. */
function parameterOf({ name, pattern }: DocumentedRoute['parameters'][number], { ids }: Tenant, at: number): string {
  const prefix = /^\^?([a-z]+)_/.exec(pattern)?.[1] ?? (name === 'id' ? 'ses' : undefined);
  return prefix === undefined ? 'x' : pick(ids[prefix] ?? [freshId(prefix)], at);
}

function addressOf(route: DocumentedRoute, owner: Tenant): string {
  const path = route.parameters
    .filter((parameter) => parameter.in === 'path')
    .reduce((url, parameter) => url.replace(`{${parameter.name}}`, parameterOf(parameter, owner, 1)), route.path);
  const search = new URLSearchParams();
  for (const parameter of route.parameters.filter(({ in: place }) => place === 'query')) {
    // No run ends in this test, so a request must not wait for one.
    if (/^(timeoutMs|wait)$/.test(parameter.name)) search.set(parameter.name, '0');
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

describe('two tenants', () => {
  test('are answered alike for what is the other’s and for what is nobody’s, on every route', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTenant(api, 'alpha'), await createTenant(api, 'beta')];
    const document = await api.call('GET', '/openapi.json', undefined, alpha.key.headers);
    const routes = readRoutes(document.body).filter(({ path }) => path.includes('{'));
    expect(routes.length).toBeGreaterThan(10);
    const nobody: Tenant = {
      ...alpha,
      ids: Object.fromEntries(
        ['ses', 'run', 'msg', 'call', 'blob', 'whk', 'dlv', 'sch'].map((kind) => [kind, [freshId(kind)]]),
      ),
    };
    for (const route of routes) {
      for (const n of [0, 1, 5, 6, 7, 9, 10]) {
        const body = route.hasBody ? bodyFor(n, beta, 0) : undefined;
        const answer = async (owner: Tenant) => {
          const path = addressOf(route, owner);
          const { status, text } = await ask(api, beta, route.method, path, body);
          return { status, text: text.replaceAll(/(ses|run|msg|call|blob|whk|dlv|sch)_[0-9a-f]{32}(_\d+)?/g, '$1') };
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

  test('cannot take an id for a session, so that none is taken and no answer tells that one exists', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTenant(api, 'alpha'), await createTenant(api, 'beta')];
    const [session = ''] = alpha.ids['ses'] ?? [];
    const create = (id: string) => api.call('POST', '/v1/sessions', { agent: 'coder', id }, beta.key.headers);
    const [foreign, nobodys] = [await create(session), await create(freshId('ses'))];
    expect(foreign.status).toBe(400);
    expect(foreign.text).toBe(nobodys.text);
  });
});
