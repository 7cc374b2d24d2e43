import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { BatonError } from '../../src/client/client.ts';
import { findChromium } from '../examples/browser.ts';
import { eventually } from '../support/eventually.ts';
import { type Console, startConsole } from './support/console.ts';
import { accessProblems, openTab, tooWide } from './support/opened.ts';

const chromium = findChromium();

describe.runIf(chromium !== null)('the forms of the console', () => {
  const stack = new AsyncDisposableStack();
  let started: Console;
  beforeAll(async () => {
    const agents = [{ name: 'analyst' }, { name: 'support' }];
    started = stack.use(await startConsole(chromium ?? '', agents, []));
  });
  afterEach(() => Promise.all(started.context.pages().map((page) => page.close())));
  afterAll(() => stack.disposeAsync());

  async function open(path: string, words: string) {
    const opened = await openTab(started.context, `${started.url}/console/${path}`);
    await opened.page.getByText(words).waitFor();
    return opened;
  }

  /** The refusals of the API for the same request, by field. */
  async function refusals(request: Promise<unknown>): Promise<Readonly<Record<string, string>>> {
    const error: unknown = await request.catch((caught: unknown) => caught);
    if (!(error instanceof BatonError)) throw new Error('the request was not refused');
    return Object.fromEntries(error.errors.map(({ path, message }) => [path, message]));
  }

  /** The message beside a field. */
  const beside = (page: Page, label: string) =>
    page
      .getByRole('dialog')
      .locator('div', { has: page.getByLabel(label, { exact: false }) })
      .last()
      .getByRole('alert');

  const hasFocus = (page: Page, attribute: string, value: string) =>
    eventually(
      () => page.evaluate<boolean>(`document.activeElement.getAttribute('${attribute}') === '${value}'`),
      `a field with ${attribute} ${value} has the focus`,
    );

  it('make and change a schedule by mouse, with each refusal in the words of the service beside its field', async () => {
    const { page, look, complaints } = await open('schedules', 'There is no schedule');
    await page.getByRole('button', { name: 'New schedule' }).click();
    const form = page.getByRole('dialog');
    await form.getByLabel('Cron').fill('at nine');
    await form.getByLabel('Jitter').fill('-5');
    await form.getByRole('button', { name: 'Create' }).click();
    const wrong = { agent: '', cron: 'at nine', content: '', jitterMs: -5 };
    const { agent, content, jitterMs } = await refusals(started.client.schedules.create(wrong));
    await beside(page, 'Agent').getByText(String(agent)).waitFor();
    expect(await beside(page, 'Message').innerText()).toBe(content);
    expect(await beside(page, 'Jitter').innerText()).toBe(jitterMs);
    await look('schedule-form');
    expect(await accessProblems(page)).toEqual([]);
    await page.setViewportSize({ width: 390, height: 800 });
    await look('schedule-form-phone');
    expect(await tooWide(page)).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 800 });
    await form.getByLabel('Agent').selectOption('analyst');
    await form.getByLabel('Message').fill('Sum up <b>the day</b>.');
    await form.getByLabel('Jitter').fill('0');
    await form.getByRole('button', { name: 'Create' }).click();
    const { cron } = await refusals(
      started.client.schedules.create({ ...wrong, agent: 'analyst', content: 'x', jitterMs: 0 }),
    );
    await beside(page, 'Cron').getByText(String(cron)).waitFor();
    await form.getByLabel('Cron').fill('30 18 * * *');
    await form.getByLabel('Time zone').fill('Europe/Berlin');
    await form.getByRole('button', { name: 'Create' }).click();
    await form.waitFor({ state: 'detached' });
    await eventually(async () => (await page.locator('ol > li').count()) === 10, 'the next ten times are shown');
    await page.getByRole('button', { name: 'Change…' }).click();
    await form.getByLabel('Due while the last run is active').selectOption('queue');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByText('while the last run is active waits').waitFor();
    const { schedules } = await started.client.schedules.list();
    expect(schedules).toMatchObject([
      {
        agent: 'analyst',
        cron: '30 18 * * *',
        timezone: 'Europe/Berlin',
        content: 'Sum up <b>the day</b>.',
        overlap: 'queue',
      },
    ]);
    // A browser notes each refused request.
    expect(complaints.filter((complaint) => !complaint.includes('400') && !complaint.includes('422'))).toEqual([]);
  });

  it('make and change a webhook by keys alone', async () => {
    const { page, look } = await open('webhooks', 'There is no webhook');
    await page.keyboard.press('n');
    await hasFocus(page, 'spellcheck', 'false');
    await page.keyboard.type('http://127.0.0.1:9/hook');
    await page.keyboard.press('Enter');
    const secret = `whsec_${'A'.repeat(32)}`;
    const { url } = await refusals(started.client.webhooks.create({ url: 'http://127.0.0.1:9/hook', secret }));
    await beside(page, 'URL').getByText(String(url)).waitFor();
    await hasFocus(page, 'aria-invalid', 'true');
    await look('webhook-form');
    expect(await accessProblems(page)).toEqual([]);
    await page.keyboard.press('Control+a');
    await page.keyboard.type('https://hooks.example.com/baton');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'hooks.example.com', exact: false }).waitFor();
    await page.keyboard.press('e');
    for (const name of await page.getByRole('dialog').getByRole('checkbox').all()) {
      await name.focus();
      await page.keyboard.press('Space');
    }
    await page.keyboard.press('Control+Enter');
    const [made] = (await started.client.webhooks.list()).webhooks;
    const { events } = await refusals(started.client.webhooks.update(made?.id ?? '', { events: [] }));
    await page.getByRole('group').getByText(String(events)).waitFor();
    await page.getByRole('checkbox', { name: 'fails' }).press('Space');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'runs of all agents · run:failed' }).waitFor();
    expect((await started.client.webhooks.list()).webhooks).toMatchObject([{ events: ['run:failed'], agent: null }]);
  });

  it('make a thing once, although the answers to the first request were lost', async () => {
    const before = (await started.client.schedules.list()).schedules.length;
    const { page } = await openTab(started.context, `${started.url}/console/schedules`);
    let isLost = true;
    await page.route('**/v1/schedules', async (route) => {
      if (route.request().method() !== 'POST' || !isLost) return route.continue();
      await route.fetch();
      await route.abort();
    });
    await page.getByRole('button', { name: 'New schedule' }).click();
    await page.getByLabel('Agent').selectOption('support');
    await page.getByLabel('Message').fill('Once');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('alert').getByText('No answer from').waitFor();
    isLost = false;
    await page.keyboard.press('Control+Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect((await started.client.schedules.list()).schedules).toHaveLength(before + 1);
  });

  // The last one: from its first key on the service needs one.
  it('make the first key, are logged in with it, make another one, show each secret once, and revoke', async () => {
    const { page, look, complaints } = await open('keys', 'There is no key: the service takes requests from anybody');
    const made = async (name: string): Promise<string> => {
      await page.getByRole('heading', { name: 'API keys' }).waitFor();
      await page.keyboard.press('n');
      const form = page.getByRole('dialog');
      await form.getByText('From this first key on').or(form.getByLabel('Lasts')).first().waitFor();
      await page.keyboard.type(name);
      await look(`key-form-${name}`);
      expect(await accessProblems(page)).toEqual([]);
      await page.keyboard.press('Control+Enter');
      const secret = await page.getByLabel('The key', { exact: true }).inputValue();
      await look(`key-made-${name}`);
      expect(await accessProblems(page)).toEqual([]);
      await page.keyboard.press('Control+Enter');
      await page.getByRole('cell', { name }).waitFor();
      expect(await page.content()).not.toContain(secret);
      return secret;
    };
    const asked = async (secret: string) =>
      (await fetch(`${started.url}/v1/sessions`, { headers: { authorization: `Bearer ${secret}` } })).status;
    const first = await made('console');
    expect((await fetch(`${started.url}/v1/sessions`)).status).toBe(401);
    await page.getByText('(yours)').waitFor();
    const second = await made('shop');
    expect([await asked(first), await asked(second)]).toEqual([200, 200]);
    const row = (name: string) => page.getByRole('row', { name });
    expect(await row('console').getByRole('button', { name: 'Revoke…' }).isDisabled()).toBe(true);
    await row('shop').getByRole('button', { name: 'Revoke…' }).click();
    await look('key-revoke');
    await page.keyboard.press('Control+Enter');
    await row('shop').getByText('revoked').waitFor();
    await look('keys');
    expect([await asked(first), await asked(second)]).toEqual([200, 401]);
    expect(await accessProblems(page)).toEqual([]);
    await page.setViewportSize({ width: 390, height: 800 });
    await look('keys-phone');
    expect(await tooWide(page)).toEqual([]);
    expect(complaints.filter((complaint) => !complaint.includes('401'))).toEqual([]);
  });
});
