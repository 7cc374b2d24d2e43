import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MAX_BODY_BYTES } from '../../src/domain/tunables.ts';
import { BAD_INPUT, JSON_TYPE } from './bad-input-cases.ts';
import { readRoutes } from './documented-routes.ts';
import { exchangeRaw } from './raw-exchange.ts';
import { startTestApi, type TestApi } from './test-api.ts';

let api: TestApi;
let sessionId: string;

async function countRows(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of ['sessions', 'runs', 'messages', 'parts', 'inbox', 'events'] as const) {
    counts[table] = await countOf(table);
  }
  return counts;
}

async function countOf(table: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*) as count from ${sql.table(table)}`.execute(api.db);
  return rows[0]?.count ?? -1;
}

const ONE_SESSION = { sessions: 1, runs: 0, messages: 0, parts: 0, inbox: 0, events: 0 };

describe('bad input', () => {
  beforeAll(async () => {
    api = await startTestApi();
    sessionId = await api.createSession();
  });

  afterAll(async () => {
    expect(await countRows()).toEqual(ONE_SESSION);
    expect(api.added).toEqual([]);
    expect(api.logged).toEqual([]);
    await api[Symbol.asyncDispose]();
  });

  test.each(BAD_INPUT)(
    '%s is refused by name',
    async (_name, method, path, body, { status, code, names, headers = {} }) => {
      const answer = await api.call(method, path.replace(':session', sessionId), body, headers);
      expect(answer.body).toMatchObject({ status, code });
      expect(answer.status).toBe(status);
      expect(answer.headers.get('content-type')).toBe('application/problem+json');
      const paths = (answer.body.errors ?? []).map((error) => error.path);
      if (typeof names === 'string') expect(paths).toContain(names);
      else expect(JSON.stringify(answer.body)).toMatch(names);
      expect(answer.text.length).toBeLessThan(10_000);
      expect(await countRows()).toEqual(ONE_SESSION);
    },
  );

  test('a parameter named __proto__ is refused on every route that has parameters', async () => {
    const routes = readRoutes((await api.call('GET', '/openapi.json')).body).filter(({ path }) =>
      /^\/(v1|api)\//.test(path),
    );
    for (const { method, path } of routes) {
      for (const name of ['__proto__', '%5F%5Fproto__']) {
        const target = `${path.replace('{id}', sessionId).replaceAll(/\{\w+\}/g, 'x')}?${name}=x`;
        const answer = await api.call(method, target, method === 'GET' ? undefined : {});
        expect(answer.body, `${method} ${target}`).toMatchObject({ status: 400, errors: [{ path: '__proto__' }] });
      }
    }
    const labelled = await api.call('GET', '/v1/sessions?metadata.k=a%20b');
    expect(labelled.status).toBe(200);
  });

  test('a body without a type is refused', async () => {
    const body = '{"agent":"coder"}';
    const head = `POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: ${body.length}`;
    expect(await exchangeRaw(api.url, `${head}\r\n\r\n${body}`)).toMatch(/^HTTP\/1.1 415 /);
  });

  test('a body that is not UTF-8 is refused', async () => {
    const body = Buffer.concat([Buffer.from('{"agent":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]);
    const response = await fetch(`${api.url}/v1/sessions`, { method: 'POST', headers: JSON_TYPE, body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'invalid_request', detail: expect.stringMatching(/UTF-8/) });
  });

  test('a body of 30 MB is refused with and without its length', async () => {
    const megabyte = new Uint8Array(1_048_576).fill(120);
    const chunked = ReadableStream.from(Array.from({ length: 30 }, () => megabyte));
    const whole = Buffer.concat(Array.from({ length: 30 }, () => megabyte));
    for (const body of [whole, chunked]) {
      const init = { method: 'POST', headers: JSON_TYPE, body, duplex: 'half' } as const;
      const response = await fetch(`${api.url}/v1/sessions`, init);
      expect(response.status).toBe(413);
      expect(await response.json()).toMatchObject({
        code: 'payload_too_large',
        detail: expect.stringMatching(/1048576/),
      });
    }
  });

  test('an endless body is refused after the limit, not at its end', async () => {
    let sent = 0;
    const hangUp = new AbortController();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        // Lets the server have its turn: it lives in this process.
        await setImmediate();
        // Fetch itself would go on to ask for more, for as long as this process lives.
        if (hangUp.signal.aborted) return controller.close();
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536).fill(120));
      },
    });
    const init = { method: 'POST', headers: JSON_TYPE, body, duplex: 'half', signal: hangUp.signal } as const;
    const response = await fetch(`${api.url}/v1/sessions`, init);
    expect(response.status).toBe(413);
    hangUp.abort();
    expect(sent).toBeLessThan(40 * MAX_BODY_BYTES);
  });

  test('a body that is longer than it says is cut there, and what is left is no request', async () => {
    const head = 'POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json';
    const answer = await exchangeRaw(api.url, `${head}\r\nContent-Length: 5\r\n\r\n{"agent":"coder"}`);
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).not.toMatch(/HTTP\/1.1 [25]\d\d /);
  });

  test('a body that says two lengths is refused', async () => {
    const head = 'POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json';
    const lengths = 'Content-Length: 17\r\nTransfer-Encoding: chunked';
    const answer = await exchangeRaw(api.url, `${head}\r\n${lengths}\r\n\r\n11\r\n{"agent":"coder"}\r\n0\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
  });

  test.each(['\\', '//', 'http://[', '*', 'x', '/%', '/v1/sessions?%', '/v1/../../etc/passwd'])(
    'the request target %s is refused',
    async (target) => {
      const answer = await exchangeRaw(
        api.url,
        `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1.1 40[04] /);
    },
  );
});
