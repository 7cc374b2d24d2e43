import { afterEach, describe, expect, it, vi } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import type { Authenticate } from '../../src/http/http-env.ts';
import { askProgram } from '../../src/http/middleware/program-caller.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { issueToken } from '../../src/store/around/session-tokens.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi } from './test-api.ts';

const SECRET = 'db password is hunter2';
/** As a program without types would write it. */
const returning = (value: unknown): Authenticate => (() => value) as unknown as Authenticate;
const throwing =
  (error: unknown): Authenticate =>
  () => {
    throw error;
  };

describe('the caller that a program names', () => {
  it.each<[string, Authenticate, number]>([
    ['a caller', returning({ tenantId: 'ann', scopes: ['read'] }), 200],
    ['a promise of one', returning(Promise.resolve({ tenantId: 'ann', scopes: ['read'], more: 1 })), 200],
    ['null', returning(null), 401],
    ['nothing', returning(undefined), 401],
    ['scopes that are a text', returning({ tenantId: 'ann', scopes: 'read' }), 500],
    ['a text in which a scope stands', returning({ tenantId: 'ann', scopes: 'thread' }), 500],
    ['a scope that does not exist', returning({ tenantId: 'ann', scopes: ['read', 'root'] }), 500],
    ['no scopes', returning({ tenantId: 'ann' }), 500],
    ['a number as its tenant', returning({ tenantId: 5, scopes: ['read'] }), 500],
    ['an empty tenant', returning({ tenantId: '', scopes: ['read'] }), 500],
    ['a tenant without end', returning({ tenantId: 'x'.repeat(201), scopes: ['read'] }), 500],
    ['a tenant that no database keeps', returning({ tenantId: 'a\u0000', scopes: ['read'] }), 500],
    ['half a character', returning({ tenantId: '\ud800', scopes: ['read'] }), 500],
    ['true', returning(true), 500],
    ['an error', throwing(new TypeError(SECRET)), 500],
    ['an error that is none', throwing(SECRET), 500],
    ['an error with a secret for a name', throwing(Object.assign(new Error(SECRET), { name: SECRET })), 500],
  ])('is checked: %s', async (_name, authenticate, expected) => {
    await using api = await startTestApi({ authenticate });
    const { status, text } = await api.call('GET', '/v1/sessions');
    expect(status).toBe(expected);
    const seen = JSON.stringify([text, api.logged]);
    expect(seen).not.toContain('hunter2');
    const noted = api.logged.filter(({ event }) => event === 'authenticate_failed');
    expect(noted).toHaveLength(expected === 500 ? 1 : 0);
  });

  it('is asked before keys: whom it does not know a key lets in, and what it throws refuses', async () => {
    await using api = await startTestApi({
      authenticate: ({ headers }, { incoming }) => {
        if (headers.get('x-blocked') !== null) throw new Error(SECRET);
        return incoming?.headers['x-user'] === undefined ? undefined : { tenantId: 'ann', scopes: ['read'] };
      },
    });
    const [key, revoked] = [await createTestKey(api.db, 'keys'), await createTestKey(api.db, 'keys')];
    const expired = await createTestKey(api.db, 'keys', ['read'], new Date(0));
    await api.db.transaction().execute((tx) => revokeApiKey(tx, revoked.id));
    const who = async (headers: Record<string, string>) => {
      const { status, body } = await api.call('GET', '/v1/whoami', undefined, headers);
      return `${status} ${body['tenant'] ?? body['detail']}`;
    };
    expect(await who({ 'x-user': 'ann' })).toBe('200 ann');
    expect(await who({ 'x-user': 'ann', ...key.headers })).toBe('200 ann');
    expect(await who(key.headers)).toBe('200 keys');
    expect(await who({ 'x-api-key': key.secret })).toBe('200 keys');
    expect(await who({ ...key.headers, 'x-blocked': 'yes' })).toMatch(/^500 /);
    expect(await who({ authorization: 'Bearer baton_none' })).toMatch(/^401 There is no such API key/);
    expect(await who(revoked.headers)).toMatch(/^401 The API key was revoked/);
    expect(await who(expired.headers)).toMatch(/^401 The API key has expired/);
    for (const headers of [{}, { authorization: 'Bearer a.b.c' }, { 'x-api-key': 'of the program' }]) {
      expect(await who(headers)).toMatch(/^401 The program that serves this API does not know the caller, and/);
    }
  });

  it('may have come by a cookie, which lets no page of another origin change anything', async () => {
    const origin = 'https://app.example';
    await using api = await startTestApi({
      corsOrigins: [origin],
      authenticate: returning({ tenantId: 'ann', scopes: ['read', 'write'] }),
    });
    const create = async (headers: Record<string, string>) =>
      (await api.call('POST', '/v1/sessions', { agent: 'coder' }, headers)).status;
    const cookie = { cookie: 'sid=1' };
    expect(await create({ ...cookie, origin: 'http://elsewhere.localhost' })).toBe(403);
    expect(await create({ ...cookie, 'sec-fetch-site': 'same-site' })).toBe(403);
    // Behind a proxy that changes the name of the host, the browser's word counts.
    expect(await create({ ...cookie, origin: 'http://outside.localhost', 'sec-fetch-site': 'same-origin' })).toBe(201);
    expect(await create({ ...cookie, origin: api.url })).toBe(201);
    expect(await create({ ...cookie, origin })).toBe(201);
    expect(await create({ origin: 'http://elsewhere.localhost' })).toBe(201);
    const read = await api.call('GET', '/v1/sessions', undefined, { ...cookie, origin: 'http://elsewhere.localhost' });
    expect(read.status).toBe(200);
  });

  it('keeps its streams when keys are made and revoked', async () => {
    await using api = await startTestApi({
      authenticate: returning({ tenantId: 'default', scopes: ['read', 'write'] }),
    });
    const session = await api.createSession();
    const events = `${api.url}/v1/sessions/${session}/events`;
    const own = await fetch(events);
    const key = await createTestKey(api.db);
    const token = await issueToken(api.db, {
      ...{ sessionId: parseId('session', session) ?? '', tenantId: 'default', keyId: key.id, canWrite: false },
      ...{ grant: { limits: {}, allow: [] }, expiresAtMs: Date.now() + 60_000 },
    });
    const byKey = await fetch(events, { headers: { authorization: `Bearer ${token}` } });
    await api.db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    // By then the keys of all streams have been looked at.
    await byKey.text();
    await api.send(session, 'Still there?');
    const reader = own.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('run:queued')) {
      const { value, done } = (await reader?.read()) ?? { done: true };
      expect(done).toBe(false);
      text += value;
    }
    await reader?.cancel();
  });

  it('is waited for ten seconds', async () => {
    vi.useFakeTimers();
    const logged: LogEvent[] = [];
    const never = (() => new Promise(() => undefined)) as Authenticate;
    const asking = askProgram(
      never,
      { request: new Request('http://localhost/'), incoming: undefined },
      (_level, event) => void logged.push(event),
    );
    const refused = expect(asking).rejects.toMatchObject({ code: 'timeout' });
    await vi.advanceTimersByTimeAsync(9_999);
    expect(logged).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await refused;
    expect(logged).toEqual([{ event: 'authenticate_failed', reason: 'late' }]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('the session of a program that opens its console', () => {
  const start = () =>
    startTestApi({
      isMounted: true,
      consoleAccess: {
        authenticate: ({ headers }) =>
          headers.get('cookie')?.includes('sid=ann') === true
            ? { tenantId: 'ann', scopes: ['read', 'write', 'operator'] }
            : null,
      },
    });
  const cookie = { cookie: 'sid=ann' };
  const both = { ...cookie, 'x-baton-console': '1' };

  it('counts for what the console asks and for pages of a browser, and for nothing else', async () => {
    await using api = await start();
    const ask = async (path: string, headers: Record<string, string>) =>
      (await api.call('GET', path, undefined, headers)).status;
    expect((await api.call('GET', '/v1/whoami', undefined, both)).body).toMatchObject({ tenant: 'ann', keyId: null });
    expect(await ask('/v1/sessions', cookie)).toBe(401);
    expect(await ask('/v1/sessions', { ...both, cookie: 'sid=bob' })).toBe(401);
    expect(await ask('/v1/sessions', {})).toBe(401);
    for (const page of ['/docs', '/openapi.json', '/metrics']) {
      expect(await ask(page, { ...cookie, 'sec-fetch-site': 'none' }), page).toBe(200);
      expect(await ask(page, { ...cookie, 'sec-fetch-site': 'cross-site' }), page).toBe(403);
    }
  });

  it('lets no page of another origin act', async () => {
    await using api = await start();
    const create = async (headers: Record<string, string>) =>
      (await api.call('POST', '/v1/sessions', { agent: 'coder' }, { ...both, ...headers })).status;
    expect(await create({ origin: 'http://elsewhere.localhost' })).toBe(403);
    expect(await create({ 'sec-fetch-site': 'same-site' })).toBe(403);
    expect(await create({ origin: api.url })).toBe(201);
    expect(await api.db.selectFrom('sessions').select('tenant_id').execute()).toEqual([{ tenant_id: 'ann' }]);
  });

  it('stands back for a login with a key, and for keys', async () => {
    await using api = await start();
    const key = await createTestKey(api.db, 'keys');
    const tenant = async (headers: Record<string, string>) =>
      (await api.call('GET', '/v1/whoami', undefined, { ...both, ...headers })).body['tenant'];
    expect(await tenant(key.headers)).toBe('keys');
    const login = await api.call('POST', '/console/login', { key: key.secret }, both);
    const [made = ''] = (login.headers.get('set-cookie') ?? '').split(';');
    expect(await tenant({ cookie: `${made}; sid=ann`, 'x-baton-console': String(login.body['page']) })).toBe('keys');
    expect(await tenant({ cookie: `${made}; sid=ann` })).toBe('ann');
  });

  it('is not the only way in: tokens that the program makes count, too', async () => {
    await using api = await start();
    const { body } = await api.call('POST', '/v1/sessions', { agent: 'coder' }, both);
    const token = await issueToken(api.db, {
      ...{ sessionId: parseId('session', String(body['id'])) ?? '', tenantId: 'ann', keyId: null, canWrite: false },
      ...{ grant: { limits: {}, allow: [] }, expiresAtMs: Date.now() + 60_000 },
    });
    const bearer = { authorization: `Bearer ${token}` };
    expect((await api.call('GET', `/v1/sessions/${body['id']}`, undefined, bearer)).status).toBe(200);
  });
});

afterEach(() => vi.useRealTimers());
