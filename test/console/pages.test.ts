import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { RejectedFile } from '../../src/agents/agent.ts';
import { readDeclarations } from '../../src/declarations/declarations.ts';
import { declare } from '../../src/declarations/declare.ts';
import { webhookPolicyOf } from '../../src/webhooks/check-webhook.ts';
import { findChromium } from '../examples/browser.ts';
import { eventually } from '../support/eventually.ts';
import { type Console, startConsole } from './support/console.ts';
import { accessProblems, openTab, scrolledSideways, tooWide } from './support/opened.ts';
import { beginSession, fillWorld, WORLD_AGENTS, WORLD_TOOLS } from './support/world.ts';

const chromium = findChromium();

/** The pages by the keys that lead there, with words that each shows once it has its data. */
const PAGES = [
  ['s', 'sessions', 'Weekly numbers'],
  ['p', 'playground', 'Answers customers about their orders.'],
  ['i', 'inbox', 'The chosen call'],
  ['r', 'runs', 'Status and cause'],
  ['e', 'errors', 'invalid request'],
  ['u', 'usage', 'Days are in UTC'],
  ['w', 'workers', 'Last sign of life'],
  ['a', 'agents', 'Reads numbers and writes reports.'],
  ['c', 'schedules', 'There is no schedule'],
  ['h', 'webhooks', 'Nothing has been sent yet'],
  ['k', 'keys', 'There is no key'],
  ['l', 'audit', 'Nothing has been cancelled'],
] as const;

/** The words of pages that show other words on a narrow screen. */
const NARROW_WORDS: Readonly<Record<string, string>> = { inbox: 'refund', runs: 'waits for refund' };

describe.runIf(chromium !== null)('the pages of the console', () => {
  const stack = new AsyncDisposableStack();
  const rejected: RejectedFile[] = [];
  let started: Console;
  beforeAll(async () => {
    started = stack.use(
      await startConsole(chromium ?? '', WORLD_AGENTS, WORLD_TOOLS, {
        rejected: () => rejected,
        environment: {
          BATON_WEBHOOKS_ALLOW_PRIVATE: 'true',
          BATON_TRACE_URL: 'https://traces.example/trace/{traceId}',
        },
      }),
    );
  });
  afterEach(() => Promise.all(started.context.pages().map((page) => page.close())));
  afterAll(() => stack.disposeAsync());

  const open = (path: string, options = {}) => openTab(started.context, `${started.url}/console/${path}`, options);
  const shows = (page: Page, words: string) =>
    page.getByText(words, { exact: false }).or(page.getByLabel(words)).first().waitFor();

  it('lead from the empty list to a first conversation', async () => {
    const { page, complaints, look } = await open('');
    await shows(page, 'There is no session yet');
    await look('sessions-empty');
    await fillWorld({ client: started.client, simulator: started.service.simulator });
    await shows(page, 'Charged twice');
    await page.goto(`${started.url}/console/playground`);
    await page.getByRole('radio', { name: /support/ }).check();
    await page.getByLabel('Message').fill('Why was shipping charged?');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/console\/sessions\/ses_[0-9a-f]{32}/);
    await shows(page, 'orders above 30 kg are not free');
    expect(complaints).toEqual([]);
  });

  it.each([
    ['in the light', { width: 1280, scheme: 'light' }],
    ['in the dark', { width: 1280, scheme: 'dark' }],
    ['on a phone', { width: 390, scheme: 'light' }],
  ] as const)('are reached by keys and have nothing that shuts anybody out, %s', async (name, options) => {
    const { page, complaints, origins, look } = await open('sessions', options);
    await shows(page, 'Weekly numbers');
    for (const [key, place, words] of PAGES) {
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await page.waitForURL(new RegExp(`/console/${place}`));
      await shows(page, options.width > 1_000 ? words : (NARROW_WORDS[place] ?? words));
      // The text field of the playground has the focus, so keys would be typed into it.
      if (place === 'playground') await page.evaluate('document.activeElement.blur()');
      await look(`${place} ${name}`);
      expect(await accessProblems(page), place).toEqual([]);
      expect(await tooWide(page), place).toEqual([]);
      if (options.width < 1_000) expect(await scrolledSideways(page), place).toEqual([]);
    }
    await page.keyboard.press('?');
    await shows(page, 'These keys');
    await look(`keys-help ${name}`);
    expect([...origins]).toEqual([started.url]);
    expect(complaints).toEqual([]);
  });

  it('run no file that somebody has sent, although it is of their origin', async () => {
    const { page } = await open('sessions');
    const upload = await fetch(`${started.url}/v1/blobs`, {
      method: 'POST',
      headers: { 'content-type': 'text/javascript' },
      body: 'document.title = "taken over"',
    });
    const place = upload.headers.get('location') ?? '';
    expect(place).toMatch(/^\/v1\/blobs\//);
    const answered: string[] = [];
    page.on('response', (response) => answered.push(new URL(response.url()).pathname));
    const refusedBy = await page.evaluate(`new Promise((resolve) => {
      document.addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective));
      const script = document.createElement('script');
      script.onload = script.onerror = () => resolve('the service');
      script.src = ${JSON.stringify(place)};
      document.head.append(script);
    })`);
    expect([refusedBy, await page.title()]).toEqual(['script-src-elem', expect.stringMatching(/Baton$/)]);
    expect(answered).not.toContain(place);
  });

  it('find sessions by words and filters, which the address keeps, and by the palette', async () => {
    const { page, look } = await open('sessions');
    await shows(page, 'Weekly numbers');
    await page.keyboard.press('/');
    await page.keyboard.type('shipping charged');
    await page.getByText('Weekly numbers').waitFor({ state: 'detached' });
    expect(page.url()).toContain('q=shipping');
    await page.reload();
    await shows(page, 'Why was shipping charged?');
    expect(await page.getByText('Weekly numbers').count()).toBe(0);
    await page.keyboard.press('/');
    await page.keyboard.press('Control+a');
    await page.keyboard.type('weighs 31');
    await page.locator('mark', { hasText: 'weighs' }).first().waitFor();
    await look('sessions-found');
    await page.getByRole('button', { name: 'clear' }).click();
    await page.getByRole('button', { name: 'failed' }).click();
    await page.getByText('Weekly numbers').waitFor({ state: 'detached' });
    await shows(page, 'Tidy up, night 3');
    await page.getByLabel('Agent', { exact: true }).selectOption('support');
    await shows(page, 'No session fits these filters');
    await page.getByRole('button', { name: 'Show all sessions' }).click();
    await shows(page, 'Weekly numbers');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('weekly');
    await page.getByRole('option', { name: /Weekly numbers/ }).waitFor();
    await look('palette');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/sessions\/ses_/);
  });

  it('act on the chosen session by keys, after a question where it matters', async () => {
    const { id } = await started.client.sessions.create({ agent: 'analyst', title: 'To be deleted' });
    const { page, look } = await open('sessions?agent=analyst');
    await shows(page, 'To be deleted');
    await page.keyboard.press('.');
    await page.getByRole('option', { name: /Cancel the run of To be deleted.*No run is active/ }).waitFor();
    await look('actions');
    await page.keyboard.type('delete to');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    // Links beneath an open dialog have no role, so the test waits for the dialog's end: the service has answered then.
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await shows(page, 'The session is deleted');
    await page.getByRole('link', { name: /To be deleted/ }).waitFor({ state: 'detached' });
    await expect(started.client.sessions.get(id)).rejects.toMatchObject({ code: 'not_found' });
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/sessions\/ses_/);
  });

  it('answer what waits by mouse and by keys, and a second tab follows', async () => {
    const { client } = started;
    const first = await open('inbox');
    const second = await open('inbox');
    await shows(first.page, 'A client runs it and gives its output.');
    await shows(second.page, 'open_page');
    await first.look('inbox');
    await first.page.keyboard.press('o');
    await first.page.keyboard.type('It is open');
    await first.page.keyboard.press('Control+Enter');
    await shows(first.page, 'Answered open_page. The run goes on.');
    await second.page.getByText('open_page').first().waitFor({ state: 'detached' });
    await shows(second.page, 'charged twice');
    await second.page.getByRole('button', { name: /Approve with other arguments/ }).click();
    const field = second.page.getByLabel('Arguments to run it with');
    await field.fill('{"amount":');
    await shows(second.page, 'This is no JSON');
    await field.fill('{"order":"A-1042","amount":9}');
    await second.look('inbox-arguments');
    await second.page.getByRole('button', { name: /Approve with these/ }).click();
    await shows(second.page, 'Approved refund.');
    await shows(first.page, 'No call waits for anybody');
    const denied = await beginSession(client, 'support', 'Deny me', 'Please refund it.');
    const approved = await beginSession(client, 'support', 'Approve me', 'Please refund it.');
    await first.page.getByRole('button', { name: /Approve me/ }).click();
    await first.page.keyboard.press('a');
    await first.page.getByRole('dialog', { name: 'Approve: refund?' }).waitFor();
    await first.page.keyboard.press('Control+Enter');
    await shows(first.page, 'Approved refund. The run goes on.');
    expect(await client.runs.wait(approved.runId)).toMatchObject({ status: 'completed' });
    await first.page.getByRole('button', { name: /Deny/, exact: false }).last().click();
    await first.page.getByLabel(/^Reason\./).fill('Not today.');
    await first.page.getByRole('button', { name: /^Deny/ }).click();
    await shows(first.page, 'Denied refund.');
    expect(await client.runs.wait(denied.runId)).toMatchObject({ status: 'completed' });
    const { messages } = await client.messages(denied.id);
    expect(JSON.stringify(messages)).toContain('Not today.');
  });

  it('say why runs have failed, in the provider’s words, and resume them', async () => {
    const { page, look } = await open('errors');
    await shows(page, 'The deployment takes no');
    await page.getByRole('button', { name: /invalid request/ }).click();
    await shows(page, 'conversations of this kind');
    expect(page.url()).toContain('group=');
    await look('errors-open');
    expect(await accessProblems(page)).toEqual([]);
    await page.getByRole('button', { name: 'Resume' }).click();
    await shows(page, 'The session goes on with run_');
    await page.keyboard.press('j');
    await page.keyboard.press('.');
    await page.keyboard.type('resume');
    await page.getByRole('option').first().waitFor();
    await page.keyboard.press('Escape');
  });

  it('resume all sessions that stopped with a cause, and none twice', async () => {
    const { page } = await open('errors');
    await page.getByRole('button', { name: /^auth/ }).click();
    await page.getByRole('button', { name: 'Resume them all…' }).click();
    await shows(page, '2 sessions stopped with this cause and have not gone on');
    await page.getByRole('dialog').getByRole('button', { name: 'Resume them all' }).click();
    await shows(page, 'Resumed 2 sessions');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('.');
    await page.keyboard.type('resume all');
    await page.keyboard.press('Enter');
    await shows(page, 'Each session with this cause has gone on already');
  });

  it('say which files of agents are not taken up, and why', async () => {
    const message = 'agents/poet.yaml: limits.maxSteps: <b>expected</b> a number';
    rejected.push({ file: 'poet.yaml', keys: ['limits.maxSteps'], message });
    const { page, look } = await open('agents');
    await shows(page, 'the agents stay as they were');
    await shows(page, message);
    await look('agents-rejected');
    expect(await accessProblems(page)).toEqual([]);
  });

  it('link a step to its trace, or say why there is none', async () => {
    const { id, runId } = await beginSession(started.client, 'analyst', 'Traced', 'Sum up.');
    await started.client.runs.wait(runId);
    const address = `sessions/${id}?step=1&tab=trace`;
    await shows((await open(address)).page, 'The run has no trace: spans were off when it began.');
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    const parent = `00-${trace}-00f067aa0ba902b7-01`;
    await started.service.deps.db.updateTable('runs').set({ traceparent: parent }).execute();
    const link = (await open(address)).page.getByRole('link', { name: 'Open trace' });
    await link.waitFor();
    expect(await link.getAttribute('href')).toBe(`https://traces.example/trace/${trace}`);
  });

  it('show what was sent to webhooks, and send it again', async () => {
    const received: (string | undefined)[] = [];
    await using receiver = await startReceiver((request) => received.push(String(request.headers['webhook-id'])));
    const { id } = await started.client.webhooks.create({ url: receiver.url, secret: `whsec_${'A'.repeat(32)}` });
    const { page, complaints, look } = await open('webhooks');
    await page.getByRole('button', { name: receiver.url }).click();
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    await page.getByRole('cell', { name: 'delivered' }).waitFor();
    await page.getByRole('button', { name: 'Send again' }).click();
    await eventually(async () => received.length === 2, 'it is sent again');
    expect(new Set(received).size).toBe(1);
    await page.getByRole('button', { name: 'Body' }).click();
    await page.getByRole('dialog').getByText('"webhook:test"').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Disable' }).click();
    await page.getByRole('button', { name: /disabled/ }).waitFor();
    await look('webhooks');
    expect(await accessProblems(page)).toEqual([]);
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await shows(page, 'There is no webhook');
    await expect(started.client.webhooks.get(id)).rejects.toMatchObject({ code: 'not_found' });
    expect(complaints).toEqual([]);
  });

  it('show schedules with their next ten times and what became of the last ones', async () => {
    const fields = { agent: 'analyst', cron: '0 9 * * 1-5', timezone: 'Europe/Berlin', content: 'Sum up <b>it</b>.' };
    const { id } = await started.client.schedules.create(fields);
    const { page, complaints, look } = await open('schedules');
    await page.getByRole('button', { name: 'Sum up <b>it</b>.' }).click();
    await eventually(async () => (await page.locator('ol > li').count()) === 10, 'the next ten times are shown');
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByRole('cell', { name: 'fired' }).waitFor();
    const [fire] = (await started.client.schedules.fires(id)).fires;
    await page.getByTitle(String(fire?.sessionId)).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: /paused/ }).waitFor();
    await look('schedules');
    expect(await accessProblems(page)).toEqual([]);
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByRole('button', { name: /next in/ }).waitFor();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await shows(page, 'There is no schedule');
    expect(complaints).toEqual([]);
  });

  it('say who declares a webhook or a schedule, and how long a change by hand lasts', async () => {
    const { deps: rest } = started.service;
    const deps = { ...rest, webhookPolicy: webhookPolicyOf(rest.config) };
    const daily = { key: 'daily', agent: 'analyst', cron: '0 9 * * *', content: 'Sum up the day.' };
    const shop = { key: 'shop', url: 'https://shop.example.com/baton', secret: `whsec_${'A'.repeat(32)}` };
    await declare(deps, readDeclarations({ schedules: [daily], webhooks: [shop], declaredAs: 'shop-api' }));
    for (const [place, name, stays] of [
      ['webhooks', /shop\.example.*key:shop · declared by the program shop-api/, 'To stop it, disable it: that lasts'],
      ['schedules', /Sum up the day.*key:daily · declared by the program shop-api/, 'To stop it, pause it: that lasts'],
    ] as const) {
      const { page, look } = await open(place);
      await page.getByRole('button', { name }).click();
      await shows(page, stays);
      await look(`${place}-declared`);
      await page.keyboard.press('e');
      await page.getByRole('dialog').getByText(stays).waitFor();
      await page.keyboard.press('Escape');
      await declare(deps, readDeclarations({ [place]: [], declaredAs: 'shop-api' }));
      await page.reload();
      await shows(page, 'and is not any more');
      await page.getByRole('button', { name: 'Delete…' }).click();
      await page.getByRole('dialog').getByText('and is not any more').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await shows(page, 'There is no ');
    }
  });

  it('lead to the board of the queues, and from its job back to the session', async () => {
    const { page, look } = await open('workers');
    await page.getByRole('link', { name: /Bull Board/ }).click();
    await page.goto(`${started.url}/admin/queues/queue/steps?status=failed`);
    const link = page.getByRole('link', { name: 'Its session' }).first();
    await link.waitFor();
    await look('board');
    const href = String(await link.evaluate((element) => (element as unknown as { href: string }).href));
    expect(href).toMatch(/\/console\/sessions\/ses_[0-9a-f]{32}$/);
    await page.goto(href);
    await shows(page, 'Tidy up, night');
  });

  it('show texts of any kind as texts', async () => {
    const title = '<img src=x onerror="globalThis.broken=1"> \u202Eتحية\u202C ';
    const { id } = await started.client.sessions.create({ agent: 'support', title: title.padEnd(200, 'x') });
    await started.client.send(id, `<script>globalThis.broken=1</script> ${'long '.repeat(20_000)} shipping`);
    const { page, complaints, look } = await open('sessions');
    await shows(page, '<img src=x');
    await look('hostile');
    expect(await page.evaluate('globalThis.broken')).toBeUndefined();
    expect(await tooWide(page)).toEqual([]);
    expect(complaints).toEqual([]);
  });

  it('say that the service is away, and go on by themselves when it is back', async () => {
    const { page, look } = await open('sessions');
    await shows(page, 'Weekly numbers');
    const isLoaded = "performance.getEntriesByType('resource').some(({ name }) => /assets\\/usage-/.test(name))";
    await eventually(() => page.evaluate<boolean>(isLoaded), 'the other pages are loaded');
    await started.context.setOffline(true);
    await page.keyboard.press('g');
    await page.keyboard.press('u');
    await shows(page, 'The service has not answered for');
    await look('away');
    await started.context.setOffline(false);
    await shows(page, 'Days are in UTC');
    await page.getByText('The service has not answered for').waitFor({ state: 'detached' });
  });
});

/** A receiver of webhooks, which accepts all of them. */
async function startReceiver(take: (request: IncomingMessage) => void) {
  const server = createServer((request, response) => {
    take(request);
    request.resume().on('end', () => response.writeHead(204).end());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}
