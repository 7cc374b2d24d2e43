import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { findChromium } from '../examples/browser.ts';
import { eventually } from '../support/eventually.ts';
import { type Console, startConsole } from './support/console.ts';
import { openTab } from './support/opened.ts';

const chromium = findChromium();

const AWAY = 'The service has not answered for';
const TEXT = Array.from({ length: 60 }, (_, no) => `word${no}`).join(' ');

describe.runIf(chromium !== null)('the console while the service or the network is away', () => {
  const stack = new AsyncDisposableStack();
  let started: Console;
  beforeAll(async () => {
    const agents = ['restarts', 'offline', 'lost', 'opened', 'plays'].map((name) => ({ name }));
    started = stack.use(await startConsole(chromium ?? '', agents));
  });
  afterEach(async () => {
    await started.context.setOffline(false);
    await Promise.all(started.context.pages().map((page) => page.close()));
  });
  afterAll(() => stack.disposeAsync());

  async function open(agent: string, base = started.url) {
    const { id } = await started.client.sessions.create({ agent, title: `Of ${agent}` });
    const { page } = await openTab(started.context, `${base}/console/sessions/${id}`);
    await page.getByText('Nothing has been said yet').waitFor();
    return { id, page };
  }

  async function say(page: Page, text: string): Promise<void> {
    await page.getByLabel('Message').fill(text);
    await page.keyboard.press('Enter');
  }

  const isBack = (page: Page) => page.getByText(AWAY).waitFor({ state: 'detached' });
  const answers = (page: Page) => page.getByLabel('Transcript').locator('article .prose').allInnerTexts();
  const wordsOf = async (id: string) =>
    (await started.client.messages(id)).messages.map(({ parts }) =>
      parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join(''),
    );

  it('goes on with an answer that a restart of the service cut, and keeps the words that it could not send', async () => {
    const { simulator, deps } = started.service;
    simulator.script('restarts', [
      { text: TEXT, chunkChars: 7, gates: { afterChunks: { count: 20, gate: 'restarts' } } },
      { text: 'The second answer.' },
    ]);
    await using before = await startApi(deps);
    const { id, page } = await open('restarts', before.url);
    await say(page, 'Tell me everything');
    await page.getByText('word10').waitFor();
    await before[Symbol.asyncDispose]();
    await page.getByText(AWAY).waitFor();
    await say(page, 'And then?');
    await page.locator('form').getByRole('alert').filter({ hasText: 'the message is not sent by itself' }).waitFor();
    expect(await page.getByLabel('Message').inputValue()).toBe('And then?');
    simulator.gate('restarts').release();
    await eventually(async () => (await started.client.sessions.get(id)).status === 'idle', 'the run has ended');
    await using _after = await startApi({
      ...deps,
      config: { ...deps.config, port: Number(new URL(before.url).port) },
    });
    await page.getByText('word59').waitFor();
    await isBack(page);
    await page.getByText('not sent by itself').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Send now' }).click();
    await page.getByText('The second answer.').waitFor();
    await page.getByText('The service is back.').waitFor({ state: 'detached' });
    const behindPx = `(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight)(
      document.querySelector('[aria-label="Transcript"]'))`;
    await eventually(async () => (await page.evaluate<number>(behindPx)) < 2, 'the list is at its end');
    expect(await answers(page)).toEqual([TEXT, 'The second answer.']);
    expect(await page.locator('article').count()).toBe(4);
    expect(await wordsOf(id)).toEqual(['Tell me everything', TEXT, 'And then?', 'The second answer.']);
  });

  it('sends a message once, although the answers to the first request were lost', async () => {
    started.service.simulator.script('lost', [{ text: 'Heard.' }, { text: 'Heard again.' }]);
    const { id, page } = await open('lost');
    let isLost = true;
    await page.route('**/messages', async (route) => {
      if (route.request().method() !== 'POST' || !isLost) return route.continue();
      await route.fetch();
      await route.abort();
    });
    await say(page, 'Do it');
    await page.getByText('It may not have got the message').waitFor();
    await page.getByText('Heard.').waitFor();
    isLost = false;
    const sent = page.waitForResponse((response) => response.request().method() === 'POST');
    await page.getByLabel('Message').press('Enter');
    await sent;
    await eventually(async () => (await started.client.sessions.get(id)).status === 'idle', 'nothing is left to do');
    expect(await wordsOf(id)).toEqual(['Do it', 'Heard.']);
    await say(page, 'Do it');
    await page.getByText('Heard again.').waitFor();
    expect(await wordsOf(id)).toEqual(['Do it', 'Heard.', 'Do it', 'Heard again.']);
  });

  it('begins one session in the playground, although the answers to its message were lost', async () => {
    started.service.simulator.script('plays', [{ text: 'Played.' }, { text: 'Played twice.' }]);
    const { page } = await openTab(started.context, `${started.url}/console/playground?agent=plays`);
    let isLost = true;
    await page.route('**/messages', async (route) => {
      if (!isLost) return route.continue();
      await route.fetch();
      await route.abort();
    });
    await page.getByRole('radio', { name: 'plays' }).check();
    await say(page, 'Play');
    await page.getByRole('alert').filter({ hasText: 'No answer from' }).waitFor();
    isLost = false;
    await page.getByLabel('Message').press('Enter');
    await page.getByText('Played.').waitFor();
    const { sessions } = await started.client.sessions.list({ agent: 'plays' });
    expect(sessions).toHaveLength(1);
    expect(await wordsOf(sessions[0]?.id ?? '')).toEqual(['Play', 'Played.']);
  });

  it('opens a session that was asked for while the network was away', async () => {
    const { id } = await started.client.sessions.create({ agent: 'opened', title: 'Of opened' });
    const { page } = await openTab(started.context, `${started.url}/console/sessions?agent=opened`);
    const link = page.getByRole('link', { name: /Of opened/ });
    await link.waitFor();
    const isLoaded = "performance.getEntriesByType('resource').some(({ name }) => /assets\\/usage-/.test(name))";
    await eventually(() => page.evaluate<boolean>(isLoaded), 'the other pages are loaded');
    await started.context.setOffline(true);
    await link.click();
    await page.waitForURL((url) => url.href.includes(id));
    await page.getByText(AWAY).waitFor();
    await page.getByText('No answer from').first().waitFor();
    await started.context.setOffline(false);
    await page.getByRole('heading', { name: 'Of opened' }).waitFor();
    await page.getByText('Nothing has been said yet').waitFor();
  });

  // The last one: the browser's clock is no longer the machine's.
  it('shows after a minute without a network what was said meanwhile, once', async () => {
    started.service.simulator.script('offline', [{ text: 'First.' }, { text: 'Second.' }]);
    const { id, page } = await open('offline');
    await say(page, 'One');
    await page.getByText('First.').waitFor();
    await page.clock.install();
    await page.clock.resume();
    await started.context.setOffline(true);
    // The stream of events falls silent.
    await page.clock.fastForward(25_000);
    await page.getByText(AWAY).waitFor();
    await page.clock.fastForward(60_000);
    await page.getByText(`${AWAY} 1 min`).waitFor();
    const { runId } = await started.client.send(id, 'Two');
    await started.client.runs.wait(runId);
    await started.context.setOffline(false);
    await page.clock.fastForward(10_000);
    await page.getByText('Second.').waitFor();
    await isBack(page);
    expect(await answers(page)).toEqual(['First.', 'Second.']);
    expect(await page.locator('article').count()).toBe(4);
  });
});
