import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestKey } from '../support/keys.ts';
import { startTestApi, type TestApi } from './test-api.ts';

let api: TestApi;
let reader: Readonly<{ headers: Readonly<Record<string, string>> }>;
beforeAll(async () => {
  api = await startTestApi();
  reader = await createTestKey(api.db, 'default', ['read']);
});
afterAll(() => api[Symbol.asyncDispose]());

describe('WWW-Authenticate', () => {
  it('tells a wrong key from none, and names the scope that lacks', async () => {
    const challenge = async (method: string, headers: Record<string, string>) => {
      const response = await fetch(`${api.url}/v1/sessions`, { method, headers });
      return [response.status, response.headers.get('www-authenticate')];
    };
    expect(await challenge('GET', {})).toEqual([401, 'Bearer realm="baton"']);
    expect(await challenge('GET', { authorization: 'Bearer baton_x' })).toEqual([
      401,
      'Bearer realm="baton", error="invalid_token"',
    ]);
    expect(await challenge('POST', reader.headers)).toEqual([
      403,
      'Bearer realm="baton", error="insufficient_scope", scope="write"',
    ]);
  });
});

describe('a token that is sent beyond its session', () => {
  it('is told by a challenge that it may not do this', async () => {
    const writer = await createTestKey(api.db, 'default', ['read', 'write']);
    const { body: session } = await api.call('POST', '/v1/sessions', { agent: 'coder' }, writer.headers);
    const path = `/v1/sessions/${String(session['id'])}/tokens`;
    const { body } = await api.call('POST', path, {}, writer.headers);
    const response = await fetch(`${api.url}/v1/sessions`, { headers: { authorization: `Bearer ${body['token']}` } });
    const challenge = 'Bearer realm="baton", error="insufficient_scope"';
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([403, challenge]);
  });
});

describe('a compressed body', () => {
  it.each(['/v1/sessions', '/v1/blobs', '/v1/chat/completions'])('is refused by %s in words', async (path) => {
    const { headers } = await createTestKey(api.db, 'default', ['read', 'write']);
    const response = await fetch(api.url + path, {
      method: 'POST',
      body: gzipSync('{"agent":"coder"}'),
      headers: { ...headers, 'content-type': 'application/json', 'content-encoding': 'gzip' },
    });
    expect([response.status, response.headers.get('accept-encoding')]).toEqual([415, 'identity']);
    expect(await response.json()).toMatchObject({ code: 'unsupported_media_type' });
  });
});

describe('OPTIONS', () => {
  it('tells the methods of a path', async () => {
    const { headers } = await createTestKey(api.db, 'default', ['read', 'write']);
    const response = await fetch(`${api.url}/v1/sessions`, { method: 'OPTIONS', headers });
    expect([response.status, response.headers.get('allow')]).toEqual([204, 'POST, GET, HEAD, OPTIONS']);
  });

  it('and a method that a path lacks get the same list', async () => {
    const { headers } = await createTestKey(api.db, 'default', ['read', 'write']);
    const response = await fetch(`${api.url}/v1/sessions`, { method: 'PUT', headers });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST, GET, HEAD, OPTIONS']);
  });
});
