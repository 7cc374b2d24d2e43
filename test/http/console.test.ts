import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Hono } from 'hono';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { SCOPES } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { createTestKey, type TestKey } from '../support/keys.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
const CONSOLE = { 'x-baton-console': '1' };
const SCRIPT = 'console.log("a");'.repeat(100);

const PAGE =
  '<!doctype html><html><head><script nonce="NONCE_OF_PAGE" src="./assets/main-1.js"></script></head><body>console</body></html>';

/** The API with a built console of one script. */
async function startWithConsole() {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder());
  await mkdir(path.join(folder, 'assets'));
  await writeFile(path.join(folder, 'index.html'), PAGE);
  await writeFile(path.join(folder, 'assets/main-1.js'), SCRIPT);
  const api = stack.use(await startTestApi({ consoleFolder: folder }));
  const owned = stack.move();
  return { ...api, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const ask = (url: string, init: RequestInit = {}) => fetch(url, { redirect: 'manual', ...init });

describe('the console', () => {
  it('is served without a key, with its files kept for ever and its page at every address below', async () => {
    await using api = await startWithConsole();
    await createTestKey(api.db);
    const script = await ask(`${api.url}/console/assets/main-1.js`);
    expect(await script.text()).toBe(SCRIPT);
    expect(script.headers.get('content-encoding')).toBe('gzip');
    expect(script.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    for (const [place, base] of [
      ['', './'],
      ['sessions', './'],
      ['sessions/ses_1', '../'],
      ['index.html', './'],
    ]) {
      const page = await ask(`${api.url}/console/${place}`);
      expect(await page.text(), place).toContain(`<head><base href="${base}">`);
      expect(page.headers.get('cache-control'), place).toBe('no-store');
      expect(page.headers.get('content-security-policy'), place).toContain("default-src 'self'");
    }
    expect((await ask(`${api.url}/console/assets/main-0.js`)).status).toBe(404);
    expect((await ask(`${api.url}/console/..%2f..%2fpackage.json`)).headers.get('content-type')).toMatch(/^text\/html/);
  });

  it('runs the scripts and takes the styles that its page names, not whatever is of this origin', async () => {
    await using api = await startWithConsole();
    const nonces = ['', 'sessions/ses_1', ''].map(async (place) => {
      const page = await ask(`${api.url}/console/${place}`);
      const [, nonce = ''] = /<script nonce="([^"]+)"/.exec(await page.text()) ?? [];
      const policy = page.headers.get('content-security-policy')?.split('; ') ?? [];
      expect(policy).toEqual(
        expect.arrayContaining([`script-src 'nonce-${nonce}'`, `style-src 'nonce-${nonce}'`, "worker-src 'none'"]),
      );
      return Buffer.from(nonce, 'base64').toString('hex');
    });
    const given = new Set(await Promise.all(nonces));
    expect(given.size).toBe(3);
    for (const nonce of given) expect(nonce).toMatch(/^[0-9a-f]{32}$/);
  });

  it('is where a browser is led, by an address that holds behind a prefix, too; a program gets links', async () => {
    await using api = await startWithConsole();
    for (const place of ['/', '/console']) {
      const answer = await ask(api.url + place, { headers: BROWSER });
      expect([answer.status, answer.headers.get('location')], place).toEqual([302, './console/']);
    }
    expect(await (await ask(`${api.url}/`)).json()).toMatchObject({ links: { console: '/console/' } });
  });

  it('that is not built says so, and leaves the page of links', async () => {
    await using api = await startTestApi({ consoleFolder: '/nowhere' });
    const { status, body } = await api.call('GET', '/console/');
    expect([status, body['detail']]).toEqual([404, expect.stringContaining('npm run build:console')]);
    expect(await (await ask(`${api.url}/`, { headers: BROWSER })).text()).toContain('npm run -s baton');
  });
});

type Login = Awaited<ReturnType<typeof logIn>> & Readonly<{ other?: string; key?: string }>;

/** Logs in as the console does. `both`: the headers that it sends from then on. */
async function logIn(api: TestApi, key: TestKey, headers: Record<string, string> = {}) {
  const answer = await api.call('POST', '/console/login', { key: key.secret }, { ...CONSOLE, ...headers });
  expect(answer.status).toBe(200);
  const set = answer.headers.get('set-cookie') ?? '';
  const [cookie = ''] = set.split(';');
  const page = String(answer.body['page']);
  const value = cookie.split('=')[1] ?? '';
  return { set, body: answer.body, cookie, value, page, both: { cookie, 'x-baton-console': page } };
}

describe('the login of the console', () => {
  it('is made of two secrets, neither of which is the key, and ends with the key', async () => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db, 'default', ['read']);
    const { set, body, both } = await logIn(api, key);
    expect(set).toMatch(/^baton_login=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/);
    expect([set, JSON.stringify(body)].join()).not.toContain(key.secret);
    const hours = (Date.parse(String(body['expiresAt'])) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(11.9);
    expect(hours).toBeLessThan(12.1);
    const who = await api.call('GET', '/v1/whoami', undefined, both);
    expect(who.body).toEqual({
      tenant: 'default',
      keyId: formatId('key', key.id),
      scopes: ['read'],
      board: false,
      traceUrl: null,
    });
    const rows = JSON.stringify(await api.db.selectFrom('console_logins').selectAll().execute());
    for (const secret of Object.values(both)) expect(rows).not.toContain(secret.split('=').at(-1));
    await api.db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    expect((await api.call('GET', '/v1/whoami', undefined, both)).status).toBe(401);
  });

  it('has a cookie of this host alone where the browser says that it came by TLS, whatever a header says', async () => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db);
    const byProxy = await logIn(api, key, { 'x-forwarded-proto': 'https' });
    expect(byProxy.set).toMatch(/^baton_login=/);
    const overTls = await logIn(api, key, { origin: api.url.replace('http:', 'https:') });
    expect(overTls.set).toMatch(/^__Host-baton_login=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/);
    expect((await api.call('GET', '/v1/sessions', undefined, overTls.both)).status).toBe(200);
  });

  it.each<[string, (login: Required<Login>) => Record<string, string>]>([
    ['its cookie alone', ({ cookie }) => ({ cookie })],
    ['its cookie with any header', ({ cookie }) => ({ cookie, ...CONSOLE })],
    ['its cookie twice', ({ cookie, value }) => ({ cookie, 'x-baton-console': value })],
    [
      'its cookie with the secret of the board',
      ({ cookie, body }) => ({ cookie, 'x-baton-console': String(body['board']) }),
    ],
    ['the secret of the page alone', ({ page }) => ({ 'x-baton-console': page })],
    [
      'the secret of the page with another cookie',
      ({ page }) => ({ 'x-baton-console': page, cookie: 'baton_login=x' }),
    ],
    ['the secrets of two logins', ({ cookie, other }) => ({ cookie, 'x-baton-console': other })],
    ['its cookie as a key', ({ value }) => ({ 'x-api-key': value })],
    ['its cookie as a bearer', ({ value }) => ({ authorization: `Bearer ${value}` })],
    ['the secret of the page as a bearer', ({ page }) => ({ authorization: `Bearer ${page}` })],
    ['the key in the cookie', ({ key, page }) => ({ cookie: `baton_login=${key}`, 'x-baton-console': page })],
  ])('does not open anything by %s', async (_name, headersOf) => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db, 'default', SCOPES);
    const other = (await logIn(api, key)).page;
    const login = { ...(await logIn(api, key)), other, key: key.secret };
    const headers = headersOf(login);
    for (const path of [
      '/v1/sessions',
      '/v1/whoami',
      '/v1/keys',
      '/docs',
      '/openapi.json',
      '/metrics',
      '/admin/queues',
    ]) {
      expect([path, (await api.call('GET', path, undefined, headers)).status]).toEqual([path, 401]);
    }
    expect((await api.call('POST', '/v1/sessions', { agent: 'coder' }, headers)).status).toBe(401);
    const logout = await api.call('POST', '/console/logout', {}, { ...CONSOLE, ...headers });
    expect(logout.status).toBe(204);
    expect((await api.call('GET', '/v1/whoami', undefined, login.both)).status).toBe(200);
  });

  it('ends with a logout, at its time, and when its key has 20 newer ones, and so do its streams', async () => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db);
    const session = (await api.call('POST', '/v1/sessions', { agent: 'coder' }, key.headers)).body['id'];
    const open = async ({ both }: Login) => {
      const stream = await fetch(`${api.url}/v1/sessions/${session}/events`, { headers: both });
      expect(stream.status).toBe(200);
      return { ended: stream.text() };
    };
    const isOver = async ({ both }: Login) => (await api.call('GET', '/v1/whoami', undefined, both)).status === 401;
    const left = await logIn(api, key);
    const leaving = await open(left);
    await api.call('POST', '/console/logout', {}, left.both);
    expect(await isOver(left)).toBe(true);
    await leaving.ended;
    const late = await logIn(api, key);
    const lasting = await open(late);
    await sql`update console_logins set expires_at = clock_timestamp()`.execute(api.db);
    expect(await isOver(late)).toBe(true);
    await lasting.ended;
    const old = await logIn(api, key);
    const pushed = await open(old);
    for (let n = 0; n < 19; n++) await logIn(api, key);
    expect(await isOver(old)).toBe(false);
    await logIn(api, key);
    expect(await isOver(old)).toBe(true);
    await pushed.ended;
  });

  it('of one key does not end with another’s', async () => {
    await using api = await startTestApi();
    const [key, another] = [await createTestKey(api.db), await createTestKey(api.db)];
    const login = await logIn(api, key);
    for (let n = 0; n < 25; n++) await logIn(api, another);
    expect((await api.call('GET', '/v1/whoami', undefined, login.both)).status).toBe(200);
    expect(await api.db.selectFrom('console_logins').select('id').execute()).toHaveLength(21);
  });

  it('opens the board by an address of its own, whose pages know it and whose changes are audited without it', async () => {
    const board = new Hono();
    board.all('*', (c) => c.json({ path: c.req.path }));
    await using api = await startTestApi({ board });
    const login = await logIn(api, await createTestKey(api.db, 'default', SCOPES));
    const { cookie, body } = login;
    const at = (path: string, headers: Record<string, string>, method = 'GET') =>
      api.call(method, `/admin/queues~${path}`, undefined, headers);
    const found = await at(`${body['board']}/api/queues`, { cookie });
    expect([found.status, found.body['path']]).toEqual([200, '/admin/queues/api/queues']);
    expect((await at(`${body['board']}/api/queues`, {})).status).toBe(401);
    expect((await at(`${login.page}/api/queues`, { cookie })).status).toBe(401);
    expect((await at('x/api/queues', { cookie })).status).toBe(401);
    expect((await at(`${body['board']}/api/queues`, { cookie, 'sec-fetch-site': 'same-site' })).status).toBe(403);
    expect((await at(`${body['board']}/x`, { cookie, origin: 'http://elsewhere' }, 'PUT')).status).toBe(403);
    expect((await at(`${body['board']}/api/retry`, { cookie }, 'PUT')).status).toBe(200);
    const audited = await api.db
      .selectFrom('audit_log')
      .select('target')
      .where('action', '=', 'admin:request')
      .execute();
    expect(audited).toEqual([{ target: '/admin/queues/api/retry' }]);
    await api.call('POST', '/console/logout', {}, login.both);
    expect((await at(`${body['board']}/api/queues`, { cookie })).status).toBe(401);
  });

  it('of a service that has lost its keys leaves it open', async () => {
    await using api = await startTestApi();
    const stale = { cookie: `baton_login=${'x'.repeat(43)}` };
    expect((await api.call('GET', '/v1/sessions', undefined, { ...stale, ...CONSOLE })).status).toBe(200);
    const both = { ...stale, 'x-baton-console': 'y'.repeat(43) };
    expect((await api.call('GET', '/v1/sessions', undefined, both)).status).toBe(401);
  });

  it('learns where the pages of traces are', async () => {
    const traceUrl = 'https://traces.example/{traceId}';
    await using api = await startTestApi({ traceUrl });
    expect((await api.call('GET', '/v1/whoami')).body).toMatchObject({ traceUrl });
  });

  it.each([
    ['a wrong key', { key: 'baton_x' }, CONSOLE, 401],
    ['no key', {}, CONSOLE, 400],
    ['no JSON', 'key', CONSOLE, 400],
    ['no header of the console', { key: 'baton_x' }, {}, 403],
    ['a page of another origin', { key: 'baton_x' }, { ...CONSOLE, origin: 'http://elsewhere' }, 403],
  ])('refuses %s', async (_, body, headers, status) => {
    await using api = await startTestApi();
    await createTestKey(api.db);
    const answer = await api.call('POST', '/console/login', body, headers);
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([status, null]);
  });

  it('lets no page of another origin act with the cookie', async () => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db, 'default', SCOPES);
    const { both } = await logIn(api, key);
    const create = (headers: Record<string, string>) =>
      api.call('POST', '/v1/sessions', { agent: 'coder' }, { ...both, ...headers });
    expect((await create({ origin: 'http://elsewhere' })).status).toBe(403);
    expect((await create({ origin: api.url.replace(/\d+$/, '1') })).status).toBe(403);
    expect((await create({ 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await create({ origin: api.url })).status).toBe(201);
    const read = await api.call('GET', '/v1/sessions', undefined, { ...both, 'sec-fetch-site': 'same-site' });
    expect(read.status).toBe(403);
    expect(await api.db.selectFrom('sessions').select('id').execute()).toHaveLength(1);
  });
});
