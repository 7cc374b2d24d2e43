import { describe, expect, test } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { type DocumentedRoute, readRoutes } from './documented-routes.ts';
import { askStep, claimJob } from './play-worker.ts';
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
        ['ses', 'run', 'msg', 'call', 'blob', 'whk', 'dlv', 'sch', 'key'].map((kind) => [kind, [freshId(kind)]]),
      ),
    };
    for (const route of routes) {
      for (const n of [0, 1, 5, 6, 7, 9, 10]) {
        const body = route.hasBody ? bodyFor(n, beta, 0) : undefined;
        const answer = async (owner: Tenant) => {
          const path = addressOf(route, owner);
          const { status, text } = await ask(api, beta, route.method, path, body);
          return {
            status,
            text: text.replaceAll(/(ses|run|msg|call|blob|whk|dlv|sch|key)_[0-9a-f]{32}(_\d+)?/g, '$1'),
          };
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

  test('have ids of messages of their own: the same id is another message on each route that takes one', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTenant(api, 'alpha'), await createTenant(api, 'beta')];
    const gamma = await createTenant(api, 'gamma');
    const as = (tenant: Tenant) => (method: string, path: string, body?: object) =>
      api.call(method, path, body, tenant.key.headers);
    const busyOf = ({ ids }: Tenant) => `/v1/sessions/${ids['ses']?.[1]}`;
    const idleOf = ({ ids }: Tenant) => `/v1/sessions/${ids['ses']?.[2]}`;
    const id = freshId('msg');
    const send = (tenant: Tenant, session: string) =>
      as(tenant)('POST', `${session}/messages`, { content: `mine: ${tenant.word}`, id });
    const [first, second] = [await send(alpha, busyOf(alpha)), await send(beta, busyOf(beta))];
    expect([first, second]).toMatchObject([{ status: 202 }, { status: 202, body: { messageId: id, queued: true } }]);
    expect(second.body['runId']).not.toBe(first.body['runId']);
    expect(await send(beta, busyOf(beta))).toMatchObject({ status: 202, body: second.body });
    expect(await send(beta, idleOf(beta))).toMatchObject({ status: 409, body: { code: 'conflict' } });

    const queued = (tenant: Tenant) => `${busyOf(tenant)}/queue/${id}`;
    expect((await as(beta)('PATCH', queued(beta), { content: 'changed' })).status).toBe(200);
    expect((await as(alpha)('GET', queued(alpha))).text).toContain(alpha.word);
    expect((await as(gamma)('GET', queued(gamma))).status).toBe(404);
    const response = `/v1/responses/resp_m${id.replace('msg_', '')}`;
    expect((await as(beta)('GET', response)).status).toBe(200);
    expect((await as(gamma)('GET', response)).status).toBe(404);
    expect((await as(beta)('DELETE', queued(beta))).status).toBe(204);
    expect((await as(beta)('GET', response)).status).toBe(404);
    expect((await as(alpha)('GET', queued(alpha))).status).toBe(200);
  });

  test('have ids of calls and of the transcript of their own', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTenant(api, 'alpha'), await createTenant(api, 'beta')];
    const [asked, answer] = [newId(), newId()];
    const id = formatId('message', asked);
    const begun = [alpha, beta].map(async ({ key: { headers }, word, ids }) => {
      const session = `/v1/sessions/${ids['ses']?.[2]}`;
      const { body } = await api.call('POST', `${session}/messages`, { content: word, id }, headers);
      const job = api.added.find(({ runId }) => formatId('run', runId) === body['runId']);
      const [call] = await askStep(api.db, await claimJob(api.db, job, answer), [{ kind: 'output', toolName: word }]);
      return { headers, session, run: `/v1/runs/${body['runId']}`, call: `tool-calls/${call?.id}` };
    });
    const [of, other] = await Promise.all(begun);
    if (of === undefined || other === undefined) throw new Error('both have begun');
    expect(of.call).toBe(other.call);
    const give = (run: string, output: string) => api.call('POST', `${run}/${of.call}`, { output }, of.headers);
    expect((await give(other.run, 'theirs')).status).toBe(404);
    expect((await give(of.run, 'mine')).status).toBe(200);
    const { body } = await api.call('GET', other.run, undefined, other.headers);
    expect(body).toMatchObject({ status: 'requires_action', requiredActions: [{ toolName: beta.word }] });
    for (const { session, headers, word } of [
      { ...of, word: alpha.word },
      { ...other, word: beta.word },
    ]) {
      const fork = await api.call('POST', `${session}/fork`, { atMessage: id }, headers);
      const { text } = await api.call('GET', `/v1/sessions/${fork.body['id']}/messages`, undefined, headers);
      expect(text).toContain(word);
      expect(text.match(/word-/g)).toHaveLength(1);
    }
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
