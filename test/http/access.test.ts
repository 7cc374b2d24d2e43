import { describe, expect, test } from 'vitest';
import { createApp } from '../../src/app/app.ts';
import { createMonitorApp } from '../../src/app/monitor-server.ts';
import { SCOPES } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import { startHttpServer } from '../../src/http/server.ts';
import { newId } from '../../src/platform/new-id.ts';
import { findCaller, listApiKeys, revokeApiKey } from '../../src/store/around/api-keys.ts';
import type { Db } from '../../src/store/db/database.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { type DocumentedRoute, readRoutes } from './documented-routes.ts';
import { exchangeRaw } from './raw-exchange.ts';
import { startTestApi, type TestApi, testDeps } from './test-api.ts';

const revoke = (db: Db, id: string) => db.transaction().execute((tx) => revokeApiKey(tx, id));
const basic = (secret: string) => `Basic ${Buffer.from(`anybody:${secret}`).toString('base64')}`;

/** Paths to ask with all methods, besides the documented routes: façades, pages, metrics and unknown paths. */
const UNLISTED = [
  '/metrics',
  '/admin',
  '/admin/queues',
  '/v1/chat/completions',
  '/v1/responses',
  '/api/chat',
  '/nowhere',
  '/livez/x',
];
/** Routes that need neither `read` nor `write`. */
const SCOPED_APART = /^\/v1\/(audit$|keys($|\/)|whoami$|workers$|operator\/|runs\/.*\/request$)/;
/** Pages that a person opens in a browser, besides `/admin`. */
const PAGES = ['/docs', '/openapi.json', '/metrics'];

async function routesOf(api: TestApi, headers: Record<string, string>): Promise<DocumentedRoute[]> {
  const { status, body } = await api.call('GET', '/openapi.json', undefined, headers);
  expect(status).toBe(200);
  return readRoutes(body);
}

/** Follows the events of a session until the service ends the stream. */
async function openStream(api: TestApi, sessionId: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${api.url}/v1/sessions/${sessionId}/events`, { headers });
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error('no stream');
  const state = { ended: false };
  const drain = async (): Promise<void> => {
    while (!(await reader.read()).done);
    state.ended = true;
  };
  void drain().catch(() => undefined);
  return { state, close: () => reader.cancel() };
}

const anyPath = ({ path }: DocumentedRoute): string =>
  path.replaceAll(/\{\w+\}/g, () => formatId(path.startsWith('/v1/runs') ? 'run' : 'session', newId()));

describe('without any key', () => {
  test('everybody on loopback is the default tenant, also a client that has to send something', async () => {
    await using api = await startTestApi();
    await api.createSession();
    const { status } = await api.call('GET', '/v1/sessions', undefined, { authorization: 'Bearer none' });
    expect(status).toBe(200);
    expect(await api.db.selectFrom('sessions').select('tenant_id').execute()).toEqual([{ tenant_id: 'default' }]);
  });

  test.each<[string, string, Record<string, string>]>([
    ['an unknown key', '/v1/sessions', { authorization: 'Bearer sk-anything' }],
    ['an unknown key in its header', '/v1/sessions', { 'x-api-key': 'baton_x' }],
    ['a password', '/docs', { authorization: basic('baton_x') }],
    ['a token that was made up', '/v1/sessions', { authorization: 'Bearer batontoken_x' }],
  ])('%s is checked and refused all the same', async (_name, path, headers) => {
    await using api = await startTestApi();
    const { status, body } = await api.call('GET', path, undefined, headers);
    expect([status, body['code']]).toEqual([401, 'unauthenticated']);
  });

  test('a token restricts its holder as it says, until the first key ends it', async () => {
    await using api = await startTestApi();
    const [mine, other] = [await api.createSession(), await api.createSession()];
    const made = await api.call('POST', `/v1/sessions/${mine}/tokens`, {});
    const headers = { authorization: `Bearer ${made.body['token']}` };
    const ask = async (method: string, path: string, body?: object) =>
      (await api.call(method, path, body, headers)).status;
    expect(await ask('GET', `/v1/sessions/${mine}`)).toBe(200);
    expect(await ask('GET', `/v1/sessions/${other}`)).toBe(403);
    expect(await ask('POST', `/v1/sessions/${mine}/messages`, { content: 'Hi' })).toBe(403);
    expect(await ask('DELETE', `/v1/sessions/${mine}`)).toBe(403);
    await createTestKey(api.db);
    expect(await ask('GET', `/v1/sessions/${mine}`)).toBe(401);
  });

  test('a page of an origin that is named may not do everything: it needs a token', async () => {
    const origin = 'https://app.example';
    await using api = await startTestApi({ corsOrigins: [origin] });
    const session = await api.createSession();
    const { body } = await api.call('POST', `/v1/sessions/${session}/tokens`, {});
    const token = { authorization: `Bearer ${body['token']}` };
    const ask = async (headers: object) =>
      (await api.call('GET', `/v1/sessions/${session}`, undefined, { origin, ...headers })).status;
    expect([await ask({}), await ask({ authorization: 'Bearer none' }), await ask(token)]).toEqual([401, 401, 200]);
  });

  test('a public address is refused, unless that is asked for; with a key it is not', async () => {
    await using api = await testDeps();
    const start = (options: object) =>
      startHttpServer(createApp(api.deps), { host: '0.0.0.0', port: 0, allowedHosts: [], ...options });
    await expect(start({})).rejects.toMatchObject({ code: 'config_invalid' });
    await using open = await start({ allowPublicBind: true });
    expect((await fetch(`${open.url.replace('0.0.0.0', '127.0.0.1')}/v1/sessions`)).status).toBe(200);
    const key = await createTestKey(api.db);
    await using closed = await start({ hasApiKeys: true });
    const url = `${closed.url.replace('0.0.0.0', '127.0.0.1')}/v1/sessions`;
    expect((await fetch(url)).status).toBe(401);
    expect((await fetch(url, { headers: key.headers })).status).toBe(200);
  });

  test('what was opened without one ends when the first key is made', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const stream = await openStream(api, sessionId);
    await createTestKey(api.db);
    await eventually(async () => stream.state.ended, 'the stream without a key ends');
    expect((await api.call('GET', `/v1/sessions/${sessionId}`)).status).toBe(401);
  });

  test('a server that nobody without a key may use stays closed when the keys are gone', async () => {
    await using api = await testDeps();
    await using server = await startHttpServer(createApp(api.deps), {
      host: '0.0.0.0',
      port: 0,
      allowedHosts: [],
      hasApiKeys: true,
    });
    expect((await fetch(`${server.url.replace('0.0.0.0', '127.0.0.1')}/v1/sessions`)).status).toBe(401);
  });
});

/** Requests of other services, whose signatures are checked in place of a key. */
const HOOK = /^\/v1\/hooks\//;

describe('as soon as there is a key', () => {
  test('every route asks for one, those that nobody knows included; only probes and links answer without', async () => {
    await using api = await startTestApi();
    await api.createSession();
    const key = await createTestKey(api.db, 'default', SCOPES);
    const routes = await routesOf(api, key.headers);
    const listed = routes.map((route) => ({ ...route, path: anyPath(route) }));
    const unlisted = UNLISTED.flatMap((path) =>
      ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS'].map((method) => ({ method, path, isOpen: false })),
    );
    for (const { method, path, isOpen } of [...listed, ...unlisted]) {
      const { status, headers, body } = await api.call(method, path);
      const name = `${method} ${path}`;
      if (isOpen) {
        // No hook is configured.
        expect(status, name).toBe(HOOK.test(path) ? 404 : 200);
        continue;
      }
      expect(status, name).toBe(401);
      expect(body, name).toMatchObject({ code: 'unauthenticated', status: 401 });
      expect(headers.get('content-type'), name).toBe('application/problem+json');
      const isPage = path.startsWith('/admin') || (method === 'GET' && PAGES.includes(path));
      expect(headers.get('www-authenticate'), name).toMatch(isPage ? /^Basic / : /^Bearer /);
    }
    const open = listed.filter(({ isOpen, path }) => isOpen && !HOOK.test(path)).map(({ path }) => path);
    expect(open).toEqual(['/livez', '/readyz', '/']);
  });

  test.each([
    ['no key at all', {}],
    ['something else', { authorization: 'Bearer nonsense' }],
    ['half a key', { authorization: 'Bearer baton_' }],
    ['another way', { authorization: 'Digest baton_x' }],
    ['a password where there is no page', { authorization: basic('baton_x') }],
    ['an empty header', { 'x-api-key': '' }],
  ])('%s is refused', async (_name, headers) => {
    await using api = await startTestApi();
    await createTestKey(api.db);
    expect((await api.call('GET', '/v1/sessions', undefined, headers)).status).toBe(401);
  });

  test('a key is taken from either header, and what it may do is what its scopes say', async () => {
    await using api = await startTestApi();
    const reader = await createTestKey(api.db, 'default', ['read']);
    const writer = await createTestKey(api.db, 'default', ['write']);
    const operator = await createTestKey(api.db, 'default', ['operator']);
    const routes = (await routesOf(api, reader.headers)).filter(
      ({ path }) => path.startsWith('/v1/') && !HOOK.test(path),
    );
    expect((await api.call('GET', '/v1/sessions', undefined, { 'x-api-key': reader.secret })).status).toBe(200);
    const lacking = async (key: typeof reader, method: string, path: string) => {
      const { status, body } = await api.call(method, path, undefined, key.headers);
      return status === 403 ? body['detail'] : status;
    };
    for (const route of routes.filter(({ path }) => !SCOPED_APART.test(path))) {
      const [allowed, refused, scope] = route.method === 'GET' ? [reader, writer, 'read'] : [writer, reader, 'write'];
      const name = `${route.method} ${route.path}`;
      expect(await lacking(refused, route.method, anyPath(route)), name).toBe(`The API key lacks the scope ${scope}`);
      expect(await lacking(operator, route.method, anyPath(route)), name).toBe(`The API key lacks the scope ${scope}`);
      // This stream has no end.
      if (route.path === '/v1/activity') continue;
      // The run does not exist, so its wait must be answered at once and not after half a minute.
      expect(await lacking(allowed, route.method, anyPath(route)), name).not.toEqual(expect.any(String));
    }
    for (const { path } of routes.filter((route) => /^\/v1\/(workers|operator\/)/.test(route.path))) {
      expect(await lacking(reader, 'GET', path)).toBe('The API key lacks the scope operator');
      expect(await lacking(operator, 'GET', path), path).not.toEqual(expect.any(String));
    }
    const prompt = `/v1/runs/${formatId('run', newId())}/steps/1/request`;
    expect(await lacking(reader, 'GET', prompt)).toBe('The API key lacks the scope admin');
    expect(await lacking(await createTestKey(api.db, 'default', ['admin']), 'GET', prompt)).toBe(404);
    for (const path of ['/metrics', '/admin/queues']) {
      expect(await lacking(reader, 'GET', path)).toBe('The API key lacks the scope operator');
      expect(await lacking(operator, 'GET', path)).not.toBe(401);
    }
  });

  test('what is read in a browser takes the key as a password, and needs no other scope for that', async () => {
    await using api = await startTestApi();
    const reader = await createTestKey(api.db, 'default', ['read']);
    const operator = await createTestKey(api.db, 'default', ['operator']);
    const statuses = ({ secret }: typeof reader, method = 'GET') =>
      Promise.all(
        PAGES.map(async (path) => (await api.call(method, path, undefined, { authorization: basic(secret) })).status),
      );
    expect(await statuses(reader)).toEqual([200, 200, 403]);
    expect(await statuses(operator)).toEqual([403, 403, 200]);
    expect(await statuses(reader, 'POST')).toEqual([401, 401, 401]);
  });

  test('the port for health and metrics asks a scraper, too', async () => {
    await using api = await testDeps();
    const { secret } = await createTestKey(api.db, 'default', ['operator']);
    await using server = await startHttpServer(createMonitorApp(api.deps), { host: '127.0.0.1', port: 0 });
    expect((await fetch(`${server.url}/metrics`)).status).toBe(401);
    expect((await fetch(`${server.url}/livez`)).status).toBe(200);
    expect((await fetch(`${server.url}/metrics`, { headers: { 'x-api-key': secret } })).status).toBe(200);
  });

  test('the port for health and metrics has the headers of the API, and on loopback answers to no other name', async () => {
    await using api = await testDeps();
    await using service = await startHttpServer(createApp(api.deps), { host: '127.0.0.1', port: 0 });
    await using monitor = await startHttpServer(createMonitorApp(api.deps), { host: '127.0.0.1', port: 0 });
    for (const path of ['/livez', '/readyz', '/metrics', '/nowhere']) {
      const [own, its] = await Promise.all([monitor, service].map(({ url }) => fetch(url + path)));
      const names = (response: Response | undefined) => [...(response?.headers.keys() ?? [])].toSorted();
      expect([path, names(own)]).toEqual([path, names(its)]);
      expect(own?.headers.get('content-security-policy')).toContain("default-src 'none'");
      const rebound = `GET ${path} HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n`;
      expect([path, await exchangeRaw(monitor.url, rebound)]).toEqual([path, expect.stringContaining('HTTP/1.1 403')]);
    }
  });

  test('a page asks a browser for a key, and takes nothing from pages of others', async () => {
    await using api = await startTestApi();
    const { secret } = await createTestKey(api.db, 'default', ['operator']);
    const ask = async (headers: Record<string, string>) =>
      (await api.call('POST', '/admin/queues/x', undefined, { authorization: basic(secret), ...headers })).status;
    const { host } = new URL(api.url);
    expect(await ask({})).not.toBe(401);
    expect([403, 401]).not.toContain(await ask({ origin: `http://${host}` }));
    // The guard of hosts lets loopback origins in, but this one is not the origin of the page.
    expect(await ask({ origin: 'http://localhost:1' })).toBe(403);
    expect(await ask({ 'sec-fetch-site': 'same-site' })).toBe(403);
  });

  test('one that is revoked is refused by the next request, and the last one opens nothing when it goes', async () => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db);
    expect((await api.call('GET', '/v1/sessions', undefined, key.headers)).status).toBe(200);
    await revoke(api.db, key.id);
    expect((await api.call('GET', '/v1/sessions', undefined, key.headers)).status).toBe(401);
    expect((await api.call('GET', '/v1/sessions')).status).toBe(401);
    await expect(revoke(api.db, key.id)).rejects.toMatchObject({ code: 'conflict' });
    await expect(revoke(api.db, newId())).rejects.toMatchObject({ code: 'not_found' });
  });

  test('a revoked one ends the streams and waits that it opened, and those of no other', async () => {
    await using api = await startTestApi();
    const [gone, waiting, kept] = await Promise.all([1, 2, 3].map(() => createTestKey(api.db)));
    if (gone === undefined || waiting === undefined || kept === undefined) throw new Error('no keys');
    const created = await api.call('POST', '/v1/sessions', { agent: 'coder' }, kept.headers);
    const sessionId = String(created.body['id']);
    const sent = await api.call('POST', `/v1/sessions/${sessionId}/messages`, { content: 'x' }, kept.headers);
    const [first, second] = await Promise.all([gone, kept].map((key) => openStream(api, sessionId, key.headers)));
    if (first === undefined || second === undefined) throw new Error('no streams');
    const wait = api.call('GET', `/v1/runs/${sent.body['runId']}/wait?timeoutMs=300000`, undefined, waiting.headers);
    const isUsed = async () =>
      (await listApiKeys(api.db)).some((key) => key.id === waiting.id && key.lastUsedAt !== null);
    await eventually(isUsed, 'the wait was let in');
    await revoke(api.db, gone.id);
    await revoke(api.db, waiting.id);
    await eventually(async () => first.state.ended, 'the stream of the revoked key ends');
    expect((await wait).body).toMatchObject({ status: 'queued' });
    expect(second.state.ended).toBe(false);
    await second.close();
  });
});

test('a key that expires is refused from then on, and ends what it has opened', async () => {
  await using api = await startTestApi();
  const tomorrow = new Date(Date.now() + 86_400_000);
  const key = await createTestKey(api.db, 'default', ['read', 'write'], tomorrow);
  const { body } = await api.call('POST', '/v1/sessions', { agent: 'coder' }, key.headers);
  const stream = await openStream(api, String(body['id']), key.headers);
  await api.db.updateTable('api_keys').set({ expires_at: new Date() }).execute();
  await eventually(async () => stream.state.ended, 'the stream of the expired key ends');
  const refused = await api.call('GET', '/v1/sessions', undefined, key.headers);
  expect([refused.status, refused.body['detail']]).toEqual([401, expect.stringContaining('expired')]);
});

describe('a stored key', () => {
  test('is a hash: nothing in the database is the secret', async () => {
    await using api = await testDeps();
    const { secret } = await createTestKey(api.db);
    expect(secret).toMatch(/^baton_[\w-]{43}$/);
    const rows = JSON.stringify(await api.db.selectFrom('api_keys').selectAll().execute());
    expect(rows).not.toContain(secret.slice(12));
    expect((await listApiKeys(api.db))[0]).toMatchObject({ shown: secret.slice(0, 10), lastUsedAt: null });
  });

  test('remembers its use to the minute, and is not written by every request', async () => {
    await using api = await testDeps();
    const { id, secret } = await createTestKey(api.db);
    const lastUsed = async () => (await listApiKeys(api.db))[0]?.lastUsedAt ?? null;
    await Promise.all(Array.from({ length: 10 }, () => findCaller(api.db, secret)));
    const first = await lastUsed();
    expect(first).not.toBeNull();
    await findCaller(api.db, secret);
    expect(await lastUsed()).toEqual(first);
    const earlier = new Date((first?.getTime() ?? 0) - 61_000);
    await api.db.updateTable('api_keys').set({ last_used_at: earlier }).where('id', '=', id).execute();
    await findCaller(api.db, secret);
    expect((await lastUsed())?.getTime()).toBeGreaterThanOrEqual(first?.getTime() ?? 0);
  });
});
