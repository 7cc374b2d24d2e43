import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import type { Scope } from '../../src/domain/access.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { findChromium } from '../examples/browser.ts';
import { createTestKey, type TestKey } from '../support/keys.ts';
import { type Console, startConsole } from './support/console.ts';
import { accessProblems, openTab, tooWide } from './support/opened.ts';
import { startPrefixProxy } from './support/prefix-proxy.ts';
import { beginSession, scriptWorld, WORLD_AGENTS, WORLD_TOOLS } from './support/world.ts';

/** A server on another port of the host, as an agent's command may start one. It keeps what a browser sends. */
async function startThief(): Promise<AsyncDisposable & { url: string; received: Record<string, string>[] }> {
  const received: Record<string, string>[] = [];
  const server = createServer((asked, answer) => {
    received.push(Object.fromEntries(Object.entries(asked.headers).map(([name, value]) => [name, String(value)])));
    answer.setHeader('content-type', 'text/html').end('<p>A page of another port</p>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    received,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const chromium = findChromium();
const PREFIX = '/tools/baton';

describe.runIf(chromium !== null)('the console of a service with keys', () => {
  const stack = new AsyncDisposableStack();
  let started: Console;
  let keys: Record<'reader' | 'writer' | 'operator', TestKey>;

  beforeAll(async () => {
    started = stack.use(await startConsole(chromium ?? '', WORLD_AGENTS, WORLD_TOOLS));
    const { simulator, deps } = started.service;
    scriptWorld(simulator);
    const key = (scopes: readonly Scope[], tenant = 'acme') => createTestKey(deps.db, tenant, scopes);
    keys = {
      reader: await key(['read']),
      writer: await key(['read', 'write', 'admin']),
      operator: await key(['operator'], 'ops'),
    };
    const client = createClient({ baseUrl: started.url, apiKey: keys.writer.secret });
    await client.runs.wait((await beginSession(client, 'support', 'Confidential title', 'Please refund it.')).runId);
    simulator.fault('nightly', { status: 400, body: { error: { message: 'Confidential cause.', type: 'invalid' } } });
    await client.runs.wait((await beginSession(client, 'nightly', 'Tidy up', 'Tidy up.')).runId);
  });
  afterEach(async () => {
    await Promise.all(started.context.pages().map((page) => page.close()));
    await started.context.clearCookies();
  });
  afterAll(() => stack.disposeAsync());

  const shows = (page: Page, words: string) => page.getByText(words, { exact: false }).first().waitFor();

  async function logIn(key: TestKey, url = started.url, path = '') {
    const opened = await openTab(started.context, `${url}/console/${path}`);
    await opened.page.getByLabel('API key').fill(key.secret);
    await opened.page.keyboard.press('Enter');
    await opened.page.getByRole('navigation', { name: 'Pages' }).first().waitFor({ state: 'attached' });
    return opened;
  }

  it('asks for one, says why it is refused, and keeps it where no script of the page reads it', async () => {
    const { page, look } = await openTab(started.context, `${started.url}/console/runs`);
    await page.getByLabel('API key').fill('baton_wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await look('login');
    expect(await accessProblems(page)).toEqual([]);
    await page.getByLabel('API key').fill(keys.reader.secret);
    await page.getByRole('button', { name: 'Log in' }).click();
    await shows(page, 'needs an answer');
    expect(page.url()).toContain('/console/runs');
    const [cookie] = await started.context.cookies();
    expect(cookie).toMatchObject({ name: 'baton_login', httpOnly: true, sameSite: 'Strict', expires: -1 });
    expect(cookie?.value).not.toContain(keys.reader.secret);
    const kept = await page.evaluate(
      '[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join()',
    );
    expect(kept).not.toContain(keys.reader.secret);
    expect(kept).not.toContain(cookie?.value);
    // Another tab is logged in as well, and out with this one.
    const second = await openTab(started.context, `${started.url}/console/runs`);
    await shows(second.page, 'needs an answer');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('API key').waitFor();
    expect(await started.context.cookies()).toEqual([]);
    expect(await page.evaluate('localStorage.length')).toBe(0);
    await second.page.reload();
    await second.page.getByLabel('API key').waitFor();
  });

  it('shows a reader everything but the actions, and why', async () => {
    const { page, look } = await logIn(keys.reader, started.url, 'inbox');
    await shows(page, 'Confidential title');
    const approve = page.getByRole('button', { name: /^Approve a/ });
    expect(await approve.isDisabled()).toBe(true);
    await shows(page, 'Your key lacks the scope write');
    await look('inbox-reader');
    await page.keyboard.press('a');
    await page.keyboard.press('.');
    await page
      .getByRole('option', { name: /Approve.*Your key lacks the scope write/ })
      .first()
      .waitFor();
    await page.keyboard.press('Escape');
    expect(
      await page.getByRole('navigation', { name: 'Pages' }).first().getByRole('link').allInnerTexts(),
    ).not.toContain('Workers');
    await page.goto(`${started.url}/console/workers`);
    await shows(page, 'Your key lacks the scope operator');
    await page.goto(`${started.url}/console/audit`);
    await shows(page, 'Your key lacks the scope admin');
    await page.goto(`${started.url}/console/playground`);
    await shows(page, 'Your key lacks the scope write');
    for (const [place, words] of [
      ['schedules', 'There is no schedule'],
      ['webhooks', 'There is no webhook'],
    ] as const) {
      await page.goto(`${started.url}/console/${place}`);
      await shows(page, words);
      expect(await page.getByRole('button', { name: /^New/ }).count()).toBe(0);
      await page.keyboard.press('n');
      expect(await page.getByRole('dialog').count()).toBe(0);
    }
    await page.goto(`${started.url}/console/errors`);
    await page.getByRole('button', { name: /invalid request/ }).click();
    await shows(page, 'Confidential cause.');
    expect(await page.getByRole('button', { name: 'Resume' }).isDisabled()).toBe(true);
  });

  it('shows an operator states and causes of all tenants, and nothing that was said', async () => {
    const { page, look } = await logIn(keys.operator);
    await shows(page, 'Your key does not show sessions');
    const seen: string[] = [];
    for (const [place, words] of [
      ['runs', 'acme'],
      ['errors', 'in 1 tenant'],
      ['usage?by="tenant"', 'acme'],
      ['workers', 'Last sign of life'],
    ] as const) {
      await page.goto(`${started.url}/console/${place}`);
      await shows(page, words);
      if (place === 'errors') {
        await page.getByRole('button', { name: /invalid request/ }).click();
        await shows(page, 'Tenant acme');
      }
      await look(`operator-${place.replace(/\W.*/, '')}`);
      expect(await accessProblems(page)).toEqual([]);
      seen.push(String(await page.content()));
    }
    expect(seen.join()).not.toContain('Confidential');
  });

  it('lists keys without what opens the door, and who did what', async () => {
    const { page, look } = await logIn(keys.writer, started.url, 'keys');
    await shows(page, 'for acme');
    await look('keys');
    expect(await accessProblems(page)).toEqual([]);
    expect(await page.content()).not.toContain(keys.writer.secret);
    expect(await page.content()).not.toContain('for ops');
    await page.goto(`${started.url}/console/inbox`);
    await page.getByRole('button', { name: /^Deny/ }).click();
    await page.keyboard.press('Control+Enter');
    await shows(page, 'Denied refund.');
    await page.goto(`${started.url}/console/audit`);
    await shows(page, 'tool-call answer');
    await look('audit');
    await page.setViewportSize({ width: 390, height: 800 });
    expect(await tooWide(page)).toEqual([]);
  });

  it('gives nothing to a server on another port of the host, which the cookie reaches', async () => {
    await using thief = await startThief();
    const { page } = await logIn(keys.operator);
    await shows(page, 'Your key does not show sessions');
    // As a link in an agent's answer would lead there.
    await page.evaluate(`location.href = ${JSON.stringify(thief.url)}`);
    await shows(page, 'A page of another port');
    const [taken] = thief.received;
    expect(taken?.['cookie']).toContain('baton_login=');
    expect(await page.evaluate('localStorage.length + sessionStorage.length')).toBe(0);
    const value = String(taken?.['cookie']).split('=')[1] ?? '';
    const asBrowser = {
      ...taken,
      host: new URL(started.url).host,
      origin: started.url,
      'sec-fetch-site': 'same-origin',
    };
    const tries: Readonly<Record<string, string>>[] = [
      asBrowser,
      { ...asBrowser, 'x-baton-console': '1' },
      { ...asBrowser, 'x-baton-console': value },
      { ...asBrowser, 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
      { 'x-api-key': value },
      { authorization: `Bearer ${value}` },
      { authorization: `Basic ${Buffer.from(`x:${value}`).toString('base64')}` },
    ];
    const paths = [
      '/v1/whoami',
      '/v1/sessions',
      '/v1/operator/runs',
      '/metrics',
      '/docs',
      '/admin/queues',
      '/admin/queues/api/queues',
    ];
    const board = [`/admin/queues~${value}/`, '/admin/queues~/', '/admin/queues~1/api/queues'];
    for (const headers of tries) {
      for (const path of [...paths, ...board]) {
        const { status } = await fetch(started.url + path, { headers });
        expect({ path, headers, status }).toEqual({
          path,
          headers,
          status: path === '/admin/queues~/' ? expect.any(Number) : 401,
        });
      }
    }
    // Its page asks with the cookie, as a browser lets pages of the same site.
    const asked = await page.evaluate<string>(
      `Promise.all(${JSON.stringify(paths)}.map((path) =>
        fetch(${JSON.stringify(started.url)} + path, { credentials: 'include' }).then((got) => 'read ' + got.status, () => 'refused'))).then(String)`,
    );
    expect(new Set(asked.split(','))).toEqual(new Set(['refused']));
    await page.goto(`${started.url}/console/workers`);
    await shows(page, 'Last sign of life');
  });

  it('opens the board from its page, until the logout', async () => {
    const { page } = await logIn(keys.operator, started.url, 'workers');
    await page.getByRole('link', { name: /Bull Board/ }).click();
    await page.getByRole('link', { name: 'steps' }).first().click();
    await page.waitForURL('**/queue/steps**');
    await page.reload();
    await shows(page, 'PRIORITIZED');
    const board = page.url();
    await page.goto(`${started.url}/console/workers`);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('API key').waitFor();
    const refused = await started.context.request.get(board);
    expect(refused.status()).toBe(401);
  });

  it('goes back to the login when the key is revoked', async () => {
    const key = await createTestKey(started.service.deps.db, 'acme', ['read']);
    const { page } = await logIn(key);
    await shows(page, 'Confidential title');
    await started.service.deps.db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    await page.keyboard.press('g');
    await page.keyboard.press('r');
    await shows(page, 'Your key was revoked or has expired');
    await page.getByLabel('API key').fill(keys.reader.secret);
    await page.keyboard.press('Enter');
    await shows(page, 'Status and cause');
  });

  it('keeps the words that were written when the key was revoked', async () => {
    const { db } = started.service.deps;
    const key = await createTestKey(db, 'acme', ['read', 'write']);
    const { page } = await logIn(key);
    await page.getByRole('link', { name: /Confidential title/ }).click();
    await page.getByLabel('Message').fill('Almost done');
    await db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    await shows(page, 'Your key was revoked or has expired');
    await page.getByLabel('API key').fill(keys.writer.secret);
    await page.keyboard.press('Enter');
    await page.getByLabel('Message').waitFor();
    expect(await page.getByLabel('Message').inputValue()).toBe('Almost done');
  });

  it('works below a prefix of a proxy, too', async () => {
    await using proxy = await startPrefixProxy(started.url, PREFIX);
    const { page, complaints, origins } = await logIn(keys.writer, proxy.url);
    await shows(page, 'Confidential title');
    await page.getByRole('link', { name: 'Usage' }).click();
    await shows(page, 'Days are in UTC');
    expect(new URL(page.url()).pathname).toBe(`${PREFIX}/console/usage`);
    await page.reload();
    await shows(page, 'Days are in UTC');
    expect([...origins]).toEqual([new URL(proxy.url).origin]);
    // A browser notes that the first question who is there was refused.
    expect(complaints.filter((complaint) => !complaint.includes('401'))).toEqual([]);
  });
});
