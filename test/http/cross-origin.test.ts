import { describe, expect, it } from 'vitest';
import { configOf } from '../../src/platform/config.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi } from './test-api.ts';

const APP = 'https://app.example';
/** What libraries and pages ask for, among it what no page of another origin may send. */
const ASKED = 'authorization, mcp-method, traceparent, X-Stainless-Retry-Count, x-baton-console, cookie, b@d';
const OTHER = 'https://other.example';

describe('pages of other origins', () => {
  it('may ask and read answers, refusals and streams where they are named', async () => {
    await using api = await startTestApi({ corsOrigins: [APP] });
    const key = await createTestKey(api.db, 'ann', ['read', 'write']);
    const ask = (path: string, origin: string, init: RequestInit = {}) =>
      fetch(api.url + path, { ...init, headers: { origin, ...key.headers, ...init.headers } });
    const preflight = { method: 'OPTIONS', headers: { 'access-control-request-method': 'POST' } };
    const asked = await fetch(`${api.url}/v1/sessions`, {
      ...preflight,
      headers: { ...preflight.headers, origin: APP, 'access-control-request-headers': ASKED },
    });
    expect(asked.status).toBe(204);
    expect(asked.headers.get('access-control-allow-origin')).toBe(APP);
    for (const header of ['authorization', 'mcp-method', 'traceparent', 'x-stainless-retry-count']) {
      expect(asked.headers.get('access-control-allow-headers')).toContain(header);
    }
    expect(asked.headers.get('access-control-allow-headers')).not.toMatch(/x-baton-console|cookie|b@d/);
    for (const header of ['location', 'retry-after', 'x-request-id', 'etag', 'content-range', 'ratelimit-reset']) {
      expect(asked.headers.get('access-control-expose-headers')).toContain(header);
    }
    const body = JSON.stringify({ agent: 'coder' });
    const made = await ask('/v1/sessions', APP, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    expect([made.status, made.headers.get('access-control-allow-origin')]).toEqual([201, APP]);
    const { id } = (await made.json()) as { id: string };
    const stream = await ask(`/v1/sessions/${id}/events`, APP, { headers: { accept: 'text/event-stream' } });
    expect([stream.status, stream.headers.get('access-control-allow-origin')]).toEqual([200, APP]);
    await stream.body?.cancel();
    const refused = await fetch(`${api.url}/v1/sessions`, { headers: { origin: APP } });
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, APP]);
    expect((await ask('/v1/sessions', OTHER)).headers.get('access-control-allow-origin')).toBeNull();
    expect(made.headers.get('access-control-allow-credentials')).toBeNull();
  });

  it('may not where none is named', async () => {
    await using api = await startTestApi();
    const answer = await fetch(`${api.url}/livez`, { headers: { origin: APP } });
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
  });

  it.each(['*', 'app.example', `${APP}/`, 'null'])('the setting refuses %s in words', (origin) => {
    expect(() => configOf({ corsOrigins: [origin] })).toThrow('origins of pages, such as https://app.example');
  });
});
