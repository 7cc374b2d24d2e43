import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { SCOPES } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import { revokeApiKey } from '../../src/store/api-keys.ts';
import { createTestKey } from '../support/keys.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startTestApi } from './test-api.ts';

const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
const CONSOLE = { 'x-baton-console': '1' };
const SCRIPT = 'console.log("a");'.repeat(100);

/** The API with a built console of one script. */
async function startWithConsole() {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder());
  await mkdir(path.join(folder, 'assets'));
  await writeFile(path.join(folder, 'index.html'), '<!doctype html><html><head></head><body>console</body></html>');
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

describe('the login of the console', () => {
  it('keeps the key in a cookie that no script reads, and ends with the key or with a logout', async () => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db, 'default', ['read']);
    const body = { key: key.secret };
    const login = await api.call('POST', '/console/login', body, CONSOLE);
    expect(login.status).toBe(204);
    const set = login.headers.get('set-cookie') ?? '';
    expect(set).toMatch(/^baton_login=baton_[\w-]+; Path=\/; HttpOnly; SameSite=Strict$/);
    const behindTls = await api.call('POST', '/console/login', body, { ...CONSOLE, 'x-forwarded-proto': 'https' });
    expect(behindTls.headers.get('set-cookie')).toContain('; Secure');
    const cookie = { cookie: set.split(';')[0] ?? '' };
    const who = await api.call('GET', '/v1/whoami', undefined, cookie);
    expect(who.body).toEqual({
      tenant: 'default',
      keyId: formatId('key', key.id),
      scopes: ['read'],
      board: false,
      traceUrl: null,
    });
    const logout = await api.call('POST', '/console/logout', {}, { ...CONSOLE, ...cookie });
    expect(logout.headers.get('set-cookie')).toMatch(/^baton_login=; Max-Age=0/);
    await api.db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    expect((await api.call('GET', '/v1/whoami', undefined, cookie)).status).toBe(401);
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
    const cookie = { cookie: `baton_login=${key.secret}` };
    const create = (headers: Record<string, string>) =>
      api.call('POST', '/v1/sessions', { agent: 'coder' }, { ...cookie, ...headers });
    expect((await create({})).status).toBe(403);
    expect((await create({ ...CONSOLE, origin: 'http://elsewhere' })).status).toBe(403);
    expect((await create({ ...CONSOLE, 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await create({ ...CONSOLE, origin: api.url })).status).toBe(201);
    const read = await api.call('GET', '/v1/sessions', undefined, { ...cookie, 'sec-fetch-site': 'same-site' });
    expect(read.status).toBe(403);
    expect(await api.db.selectFrom('sessions').select('id').execute()).toHaveLength(1);
  });
});
