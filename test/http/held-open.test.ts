import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { createApp } from '../../src/app/app.ts';
import type { Authenticate } from '../../src/http/http-env.ts';
import { startHttpServer } from '../../src/http/server.ts';
import { countStatements } from '../support/count-statements.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey, type TestKey } from '../support/keys.ts';
import { startTestApi, type TestApi, testDeps } from './test-api.ts';

/** A stream that is held open until it is aborted. */
async function openStream(api: TestApi, session: string, { headers }: Pick<TestKey, 'headers'>) {
  const hangUp = new AbortController();
  const { status } = await fetch(`${api.url}/v1/sessions/${session}/events`, { headers, signal: hangUp.signal });
  return { status, close: () => hangUp.abort() };
}

test('streams and waits of a key are so many and no more, whichever they are, until one is closed', async () => {
  await using api = await startTestApi({ heldLimits: { perKey: 2, perProcess: 3 } });
  const [key, other] = [await createTestKey(api.db), await createTestKey(api.db)];
  const call = (method: string, path: string, body?: object, { headers } = key) =>
    api.call(method, path, body, headers);
  const { body } = await call('POST', '/v1/sessions', { agent: 'coder' });
  const session = String(body['id']);
  const { runId } = (await call('POST', `/v1/sessions/${session}/messages`, { content: 'x' })).body;
  const first = await openStream(api, session, key);
  const hangUp = new AbortController();
  const { headers } = key;
  const waiting = fetch(`${api.url}/v1/runs/${runId}/wait`, { headers, signal: hangUp.signal }).catch(() => undefined);
  const isFull = async () => (await call('GET', `/v1/runs/${runId}/wait?timeoutMs=0`)).status === 429;
  await eventually(isFull, 'the wait is counted');
  const said = { agent: 'coder', message: { role: 'user', parts: [{ type: 'text', text: 'hi' }] } };
  const refused = [
    await call('GET', `/v1/sessions/${session}/events`),
    await call('POST', '/api/chat', { id: 'c', ...said }),
    await call('POST', '/v1/chat/completions', { model: 'coder', messages: [{ role: 'user', content: 'hi' }] }),
    await call('POST', '/v1/responses', { model: 'coder', input: 'hi' }),
    await call('GET', '/v1/responses/resp_x?stream=true'),
    await call('POST', `/v1/runs/${runId}/cancel?wait=1000`),
  ];
  for (const { status, body, headers } of refused) {
    expect([status, body['code']]).toEqual([429, 'rate_limited']);
    expect(body['detail']).toMatch(/2 of this key .*BATON_STREAMS_PER_KEY.*: close some/);
    expect(headers.get('retry-after')).toBe('1');
  }
  // Nothing else is counted, and another key has its own.
  expect((await call('GET', `/v1/sessions/${session}/events?limit=1`, undefined, jsonOf(key))).status).toBe(200);
  const others = { headers: { ...other.headers } };
  const second = await openStream(api, session, others);
  expect(second.status).toBe(200);
  expect((await call('GET', `/v1/sessions/${session}/events`, undefined, other)).body['detail']).toMatch(
    /^3 .*BATON_STREAMS\)/,
  );
  first.close();
  hangUp.abort();
  await waiting;
  await eventually(async () => !(await isFull()), 'what is closed is not counted any more');
  second.close();
});

test('a tenant with many keys leaves streams to the others', async () => {
  await using api = await startTestApi({ heldLimits: { perKey: 3, perProcess: 8 } });
  const keyOf = async (tenantId: string): Promise<Readonly<{ key: TestKey; session: string }>> => {
    const key = await createTestKey(api.db, tenantId);
    const { body } = await api.call('POST', '/v1/sessions', { agent: 'coder' }, key.headers);
    return { key, session: String(body['id']) };
  };
  const loud = await Promise.all(Array.from({ length: 3 }, () => keyOf('loud')));
  const quiet = await keyOf('quiet');
  await using streams = new AsyncDisposableStack();
  const open = async ({ key, session }: Awaited<ReturnType<typeof keyOf>>): Promise<number> => {
    const { status, close } = await openStream(api, session, key);
    streams.defer(close);
    return status;
  };
  const statuses: number[] = [];
  for (const of of [...loud, ...loud, ...loud]) statuses.push(await open(of));
  // Two of eight are left.
  expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429, 429]);
  const refused = await api.call('GET', `/v1/sessions/${loud[0]?.session}/events`, undefined, loud[0]?.key.headers);
  expect(refused.body['detail']).toMatch(/^6 of this tenant, and 6 in all, .*BATON_STREAMS\): close some/);
  expect([await open(quiet), await open(quiet)]).toEqual([200, 429]);
});

test('callers whom a program names have a count for each tenant', async () => {
  const authenticate: Authenticate = (request) => {
    const tenantId = request.headers.get('x-tenant');
    return tenantId === null ? null : { tenantId, scopes: ['read', 'write'] };
  };
  await using api = await startTestApi({ authenticate, heldLimits: { perKey: 1, perProcess: 100 } });
  await using streams = new AsyncDisposableStack();
  const statuses: number[] = [];
  for (const tenant of ['a', 'a', 'b']) {
    const headers = { 'x-tenant': tenant };
    const { body } = await api.call('POST', '/v1/sessions', { agent: 'coder' }, headers);
    const { status, close } = await openStream(api, String(body['id']), { headers });
    streams.defer(close);
    statuses.push(status);
  }
  expect(statuses).toEqual([200, 429, 200]);
});

const jsonOf = (key: TestKey): TestKey => ({ ...key, headers: { ...key.headers, accept: 'application/json' } });

test('connections beyond the bound are closed, and none that is open', async () => {
  await using noted = await testDeps();
  const { log } = noted.deps;
  const options = { host: '127.0.0.1', port: 0, maxConnections: 2, log };
  await using server = await startHttpServer(createApp(noted.deps), options);
  const port = Number(new URL(server.url).port);
  const open = () => {
    const socket = connect(port, '127.0.0.1');
    const closed = new Promise<boolean>(
      (resolve) => void socket.once('close', () => resolve(true)).on('error', () => {}),
    );
    return { socket, closed };
  };
  const [first, second] = [open(), open()];
  for (const { socket } of [first, second]) {
    socket.write('GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await new Promise((resolve) => void socket.once('data', resolve));
  }
  expect(await open().closed).toBe(true);
  expect(noted.logged).toEqual([{ event: 'http_dropped', reason: 'connections_full' }]);
  expect([first.socket.closed, second.socket.closed]).toEqual([false, false]);
  first.socket.destroy();
  second.socket.destroy();
});

test('streams of one key that are opened at once share looks for the key and for the session', async () => {
  await using noted = await testDeps();
  const { db, seen } = countStatements(noted.db);
  const { headers } = await createTestKey(noted.db);
  const app = createApp({ ...noted.deps, db });
  const { signal } = new AbortController();
  const served = { shutdown: signal, closed: signal, allowedHosts: [], onLoopback: true, openWithoutKeys: true };
  const env = { ...served, remoteAddress: '127.0.0.1' };
  const ask = (path: string, init: RequestInit) =>
    app.request(
      `http://localhost${path}`,
      { ...init, headers: { ...headers, host: 'localhost', 'content-type': 'application/json' } },
      env,
    );
  const made = await ask('/v1/sessions', { method: 'POST', body: '{"agent":"coder"}' });
  const { id } = (await made.json()) as { id: string };
  const before = seen.statements;
  // HEAD opens no stream: each query comes from the look for key and session.
  const opened = await Promise.all(
    Array.from({ length: 300 }, () => ask(`/v1/sessions/${id}/events`, { method: 'HEAD' })),
  );
  expect(new Set(opened.map(({ status }) => status))).toEqual(new Set([200]));
  expect(seen.statements - before).toBeLessThan(20);
});
