import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextRound } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { openApp, startApi } from '../../src/app/api-server.ts';
import { createApp } from '../../src/app/app.ts';
import { formatId } from '../../src/domain/ids.ts';
import { createPatientServer, type HttpServerOptions, startHttpServer } from '../../src/http/server.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { behindLock, untilWaiting } from '../store/race.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestService } from '../support/service.ts';
import { exchangeRaw } from './raw-exchange.ts';
import { startTestApi, testDeps } from './test-api.ts';

const JSON_BODY = { 'content-type': 'application/json' };

const requestOf = (path: string, headers: string): string =>
  `GET ${path} HTTP/1.1\r\nConnection: close\r\n${headers}\r\n\r\n`;

const getFrom = (url: string, headers: string): Promise<string> => exchangeRaw(url, requestOf('/livez', headers));

async function statusFrom(url: string, path: string, headers: string): Promise<number> {
  const answer = await exchangeRaw(url, requestOf(path, headers));
  return Number(/^HTTP\/1.1 (\d+)/.exec(answer)?.[1]);
}

describe('the server', () => {
  test('closes connections whose headers or requests are late within a second of their time', () => {
    expect(createPatientServer(() => undefined)).toMatchObject({
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      connectionsCheckingInterval: 1_000,
    });
  });

  test('answers with a request id and security headers, and lets no other origin read', async () => {
    await using api = await startTestApi();
    for (const path of ['/livez', '/nowhere']) {
      const { headers } = await api.call('GET', path, undefined, { origin: api.url });
      expect(headers.get('x-request-id')).toMatch(/^[\w-]{36}$/);
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(headers.get('x-frame-options')).toBe('DENY');
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('access-control-allow-origin')).toBeNull();
    }
    const named = await api.call('GET', '/livez', undefined, { 'x-request-id': 'my-request-1' });
    expect(named.headers.get('x-request-id')).toBe('my-request-1');
    const nonsense = await api.call('GET', '/livez', undefined, { 'x-request-id': 'a b<c>' });
    expect(nonsense.headers.get('x-request-id')).toMatch(/^[\w-]{36}$/);
  });

  test.each(['0.0.0.0', '::', '192.0.2.1', 'example.com', ''])(
    'does not listen on %j unless it is told to',
    async (host) => {
      await using api = await testDeps();
      const starting = startHttpServer(createApp(api.deps), { host, port: 0 });
      await expect(starting).rejects.toMatchObject({ name: 'BatonError', code: 'config_invalid' });
    },
  );

  test('says that a port is taken', async () => {
    await using api = await startTestApi();
    await using other = await testDeps();
    const port = Number(new URL(api.url).port);
    const starting = startHttpServer(createApp(other.deps), { host: '127.0.0.1', port });
    await expect(starting).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/EADDRINUSE/),
    });
  });

  test('closes connections beyond its limit, and takes others once there is room', async () => {
    await using api = await testDeps();
    await using server = await startHttpServer(createApp(api.deps), { host: '127.0.0.1', port: 0, maxConnections: 2 });
    const port = Number(new URL(server.url).port);
    const open = (): Socket => connect(port, '127.0.0.1').on('error', () => undefined);
    const held = [open(), open()];
    await Promise.all(held.map((socket) => once(socket, 'connect')));
    await expect.poll(() => getFrom(server.url, 'Host: 127.0.0.1').catch(() => '')).toBe('');
    for (const socket of held) socket.destroy();
    await expect.poll(() => getFrom(server.url, 'Host: 127.0.0.1').catch(() => '')).toContain('200 OK');
  });

  test('on loopback answers only requests that are addressed to it', async () => {
    await using api = await startTestApi();
    const { port } = new URL(api.url);
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, 'LOCALHOST', '[::1]:80', 'app.localhost']) {
      expect(await getFrom(api.url, `Host: ${host}`), host).toMatch(/^HTTP\/1.1 200 /);
    }
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1.evil.example',
      '192.0.2.1',
      'localhost.evil',
    ]) {
      const answer = await getFrom(api.url, `Host: ${host}`);
      expect(answer, host).toMatch(/^HTTP\/1.1 403 /);
      expect(answer).toContain('"code":"forbidden"');
    }
    for (const headers of ['Host: a b', 'Host: ', 'X: y']) {
      expect(await getFrom(api.url, headers), headers).toMatch(/^HTTP\/1.1 40[03] /);
    }
  });

  test('refuses pages of other origins', async () => {
    await using api = await startTestApi();
    for (const origin of ['https://evil.example', 'null']) {
      const answer = await api.call('POST', '/v1/sessions', { agent: 'coder' }, { origin });
      expect(answer).toMatchObject({ status: 403, body: { code: 'forbidden' } });
    }
    expect(
      (await api.call('POST', '/v1/sessions', { agent: 'coder' }, { origin: 'http://localhost:3000' })).status,
    ).toBe(201);
  });

  test('serves other names where they are allowed, and on a public address any as soon as there is a key', async () => {
    await using api = await testDeps();
    const statusOf = async (options: Omit<HttpServerOptions, 'port'>, headers = 'Host: baton.example') => {
      await using server = await startHttpServer(createApp(api.deps), { ...options, port: 0 });
      const { port } = new URL(server.url);
      return await statusFrom(`http://127.0.0.1:${port}`, '/v1/sessions', headers);
    };
    const open = { host: '0.0.0.0', allowPublicBind: true };
    expect(await statusOf({ host: '127.0.0.1' })).toBe(403);
    expect(await statusOf({ host: '127.0.0.1', allowedHosts: ['baton.example'] })).toBe(200);
    expect(await statusOf(open)).toBe(403);
    expect(await statusOf({ ...open, allowedHosts: ['baton.example'] })).toBe(200);
    expect(await statusOf({ ...open, allowedHosts: ['other.example'] })).toBe(403);
    expect(await statusOf({ ...open, allowedHosts: ['fd00::1'] }, 'Host: [FD00::1]:4400')).toBe(200);
    const { secret } = await createTestKey(api.db);
    const withKey = `Host: baton.example\r\nx-api-key: ${secret}`;
    expect(await statusOf(open)).toBe(401);
    expect(await statusOf(open, withKey)).toBe(200);
    expect(await statusOf({ ...open, allowedHosts: ['other.example'] }, withKey)).toBe(403);
  });

  test('without keys is used through a published port by loopback names alone, and by pages of its own', async () => {
    await using api = await testDeps();
    const options = { host: '0.0.0.0', port: 0, allowPublicBind: true };
    await using server = await startHttpServer(createApp(api.deps), options);
    const url = server.url.replace('0.0.0.0', '127.0.0.1');
    const { host } = new URL(url);
    for (const path of ['/v1/sessions', '/v1/agents', '/docs', '/admin/queues', '/nowhere']) {
      // A page whose domain was made to resolve to this machine: its requests are of the same origin for the browser.
      const answer = await exchangeRaw(url, requestOf(path, 'Host: evil.example:4400'));
      expect(answer, path).toMatch(/^HTTP\/1.1 403 /);
      expect(answer, path).toContain('BATON_ALLOWED_HOSTS');
    }
    expect(await statusFrom(url, '/v1/sessions', `Host: ${host}\r\nOrigin: https://evil.example`)).toBe(403);
    expect(await statusFrom(url, '/v1/sessions', `Host: ${host}\r\nOrigin: http://${host}`)).toBe(200);
    expect(await statusFrom(url, '/v1/sessions', 'Host: localhost:4400')).toBe(200);
  });

  test.each([['loopback names'], ['a name that is given', ['baton.example']]])(
    'on a public address lets health and numbers be asked for by any name, with %s for the rest',
    async (_name, allowedHosts?: string[]) => {
      await using api = await testDeps();
      const options = { host: '0.0.0.0', port: 0, allowPublicBind: true, allowedHosts };
      await using server = await startHttpServer(createApp(api.deps), options);
      const url = server.url.replace('0.0.0.0', '127.0.0.1');
      for (const path of ['/livez', '/readyz', '/metrics']) {
        for (const host of ['api:4400', '172.18.0.5:4400']) {
          expect(await statusFrom(url, path, `Host: ${host}`), path).toBe(200);
        }
      }
    },
  );

  test('takes the names from the settings of the service', async () => {
    const open = { BATON_HOST: '0.0.0.0', BATON_ALLOW_PUBLIC_BIND: 'true', BATON_PORT: '0' };
    const environment = { ...open, BATON_ALLOWED_HOSTS: 'baton.example' };
    await using service = await startTestService({ backend: 'postgres', environment });
    await using api = await startApi(service.deps);
    const url = api.url.replace('0.0.0.0', '127.0.0.1');
    expect(await statusFrom(url, '/v1/sessions', 'Host: baton.example')).toBe(200);
    expect(await statusFrom(url, '/v1/sessions', 'Host: other.example')).toBe(403);
  });

  test('stops although streams, waits, idle and silent connections are open', async () => {
    await using api = await testDeps();
    const server = await startHttpServer(createApp(api.deps), { host: '127.0.0.1', port: 0 });
    const call = async (method: string, path: string, body?: object): Promise<Record<string, unknown>> => {
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(server.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      return response.json() as Promise<Record<string, unknown>>;
    };
    const session = await call('POST', '/v1/sessions', { agent: 'coder' });
    const { runId } = await call('POST', `/v1/sessions/${session['id']}/messages`, { content: 'hello' });
    const stream = await fetch(`${server.url}/v1/sessions/${session['id']}/events?after=0`);
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toContain('session:snapshot');
    const waiting = call('GET', `/v1/runs/${runId}/wait?timeoutMs=300000`);
    const silent = connect(Number(new URL(server.url).port), '127.0.0.1');
    const silentClosed = new Promise((resolve) => silent.once('close', resolve));
    silent.on('error', () => undefined);
    await new Promise((resolve) => silent.once('connect', resolve));

    await server[Symbol.asyncDispose]();

    expect(await waiting).toMatchObject({ id: runId, status: 'queued' });
    for (let done = false; !done; ) done = (await reader?.read())?.done ?? true;
    await silentClosed;
    await expect(fetch(server.url)).rejects.toThrow();
  });

  test('closes silent connections at once and lets an answer in work be finished', async () => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<boolean>();
    await using api = await testDeps({
      readiness: async () => {
        asked.resolve();
        return { ready: await answer.promise, checks: {} };
      },
    });
    const server = await startHttpServer(createApp(api.deps), { host: '127.0.0.1', port: 0 });
    const silent = connect(Number(new URL(server.url).port), '127.0.0.1');
    silent.on('error', () => undefined);
    const silentClosed = new Promise((resolve) => silent.once('close', resolve));
    await new Promise((resolve) => silent.once('connect', resolve));
    const response = fetch(`${server.url}/readyz`);
    await asked.promise;

    const stopped = server[Symbol.asyncDispose]();
    await silentClosed;
    answer.resolve(true);

    expect(await (await response).json()).toMatchObject({ ready: true });
    await stopped;
  });
});

describe('the stop of the API', () => {
  test('waits until the job of an accepted message is added, also where its client has gone', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const { deps } = service;
    const order: string[] = [];
    const add: typeof deps.jobs.add = async (...jobs) => {
      await deps.jobs.add(...jobs);
      order.push('added');
    };
    await using stack = new AsyncDisposableStack();
    const app = openApp({ ...deps, jobs: { ...deps.jobs, add } }, stack);
    const session = await service.createSession();
    const client = new AbortController();
    const bindings = { closed: client.signal, openWithoutKeys: true, onLoopback: true };
    await behindLock(deps.db, { table: 'sessions', id: session }, async () => {
      const init = { method: 'POST', body: JSON.stringify({ content: 'Go' }), headers: JSON_BODY };
      void app.request(`http://127.0.0.1/v1/sessions/${formatId('session', session)}/messages`, init, bindings);
      await untilWaiting(deps.db, 1);
      client.abort();
      void stack.disposeAsync().then(() => order.push('stopped'));
      await nextRound();
    });
    await expect.poll(() => order).toEqual(['added', 'stopped']);
  });
});

describe('health', () => {
  test('livez answers; readyz tells what is not ready', async () => {
    await using api = await startTestApi();
    expect(await api.call('GET', '/livez')).toMatchObject({ status: 200, body: { status: 'ok' } });
    expect(await api.call('GET', '/readyz')).toMatchObject({ status: 200, body: { ready: true } });
    const checks = { queue: { ok: false, message: 'redis is away' } };
    await using unready = await startTestApi({ readiness: async () => ({ ready: false, checks }) });
    expect(await unready.call('GET', '/readyz')).toMatchObject({ status: 503, body: { ready: false, checks } });
  });
});

describe('failures', () => {
  test('without the database every route says so, as something to try again', async () => {
    const db = openDatabase({ connectionString: 'postgres://postgres@127.0.0.1:1/none' });
    await using api = await startTestApi({ db });
    const id = 'ses_0199c0ffee007000800000000000000a';
    const requests = [
      ['POST', '/v1/sessions', { agent: 'coder' }],
      ['GET', '/v1/sessions', undefined],
      ['POST', `/v1/sessions/${id}/messages`, { content: 'x' }],
      ['GET', `/v1/sessions/${id}/events`, undefined],
      ['POST', `/v1/sessions/${id}/cancel`, undefined],
      ['GET', '/v1/runs', undefined],
    ] as const;
    for (const [method, path, body] of requests) {
      const answer = await api.call(method, path, body);
      expect(answer, path).toMatchObject({ status: 503, body: { code: 'store_unavailable', status: 503 } });
      expect(answer.headers.get('retry-after')).toBe('1');
      expect(answer.text).not.toMatch(/ECONN|127\.0\.0\.1/);
    }
    expect(api.logged).toHaveLength(requests.length);
    await db.destroy();
  });

  test('what nobody expected is logged with the request and tells the caller nothing', async () => {
    const secret = 'the password is hunter2';
    const broken = (): never => {
      throw new Error(secret);
    };
    await using api = await startTestApi({ agents: { current: async () => broken() } });
    const answer = await api.call('GET', '/v1/agents', undefined, { 'x-request-id': 'r-1' });
    expect(answer).toMatchObject({ status: 500, body: { code: 'internal', instance: '/v1/agents' } });
    expect(answer.text).not.toContain(secret);
    expect(api.logged).toMatchObject([
      { event: 'http_request_failed', method: 'GET', path: '/v1/agents', requestId: 'r-1', error: { message: secret } },
    ]);
  });
});
