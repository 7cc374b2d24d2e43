import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { findChromium } from '../examples/browser.ts';
import { eventually } from '../support/eventually.ts';
import { paintPng } from '../support/png.ts';
import { type Console, startConsole } from './support/console.ts';
import { accessProblems, openTab, tooWide } from './support/opened.ts';
import { beginSession, scriptWorld, WORLD_AGENTS, WORLD_TOOLS } from './support/world.ts';

const chromium = findChromium();

describe.runIf(chromium !== null)('what is done with a session', () => {
  const stack = new AsyncDisposableStack();
  let started: Console;
  beforeAll(async () => {
    started = stack.use(await startConsole(chromium ?? '', WORLD_AGENTS, WORLD_TOOLS));
    scriptWorld(started.service.simulator);
  });
  afterAll(() => stack.disposeAsync());
  afterEach(() => Promise.all(started.context.pages().map((page) => page.close())));

  const shows = (page: Page, words: string) => page.getByText(words).first().waitFor();

  /** A session with an answer, in a tab. */
  async function open(title: string, agent = 'support') {
    const { id, runId } = await beginSession(started.client, agent, title, 'Why was shipping charged?');
    await started.client.runs.wait(runId);
    const tab = await openTab(started.context, `${started.url}/console/sessions/${id}`);
    await shows(tab.page, 'orders above 30 kg are not free');
    return { ...tab, id };
  }

  /** Presses the keys of the menu of actions. */
  async function choose(page: Page, words: string): Promise<void> {
    // While the dialog of the action before is still there, it takes the keys.
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('.');
    await page.getByRole('menuitem', { name: words }).waitFor();
    await page.keyboard.type(words.slice(0, 4));
    await eventually(
      () => page.evaluate<boolean>(`document.activeElement.textContent.startsWith(${JSON.stringify(words)})`),
      `the keys have chosen ${words}`,
    );
    await page.keyboard.press('Enter');
  }

  it('takes files that are dropped or pasted beside a message', async () => {
    const { page, id, complaints } = await open('With files');
    const image = paintPng(8, 8, [20, 120, 200]).toString('base64');
    const give = (event: string, name: string) =>
      page.evaluate(`(() => {
        const given = new DataTransfer();
        const bytes = Uint8Array.from(atob('${image}'), (one) => one.charCodeAt(0));
        given.items.add(new File([bytes], '${name}'));
        const options = { bubbles: true, cancelable: true, dataTransfer: given, clipboardData: given };
        document.querySelector('[aria-label="Message"]').dispatchEvent(${event});
      })()`);
    await give("new DragEvent('drop', options)", 'dropped.png');
    await give("new ClipboardEvent('paste', options)", 'pasted.png');
    await page.getByRole('button', { name: 'Remove pasted.png' }).waitFor();
    await page.getByText('uploading').first().waitFor({ state: 'detached' });
    await page.getByLabel('Message').fill('What are these?');
    await page.keyboard.press('Enter');
    await shows(page, 'Done: nothing else is open.');
    const { messages } = await started.client.messages(id);
    const files = messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'file' ? [part] : [])));
    expect(files.map(({ filename, mediaType }) => [filename, mediaType])).toEqual([
      ['dropped.png', 'image/png'],
      ['pasted.png', 'image/png'],
    ]);
    expect(complaints).toEqual([]);
  });

  it('renames it, switches its agent and takes new definitions of tools, by keys', async () => {
    const { page, id } = await open('Old name');
    await choose(page, 'Rename');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Control+a');
    // A space presses no button, and no letter reaches the page.
    await page.keyboard.type('New <b>name</b> x');
    await page.keyboard.press('Backspace');
    await page.keyboard.press('Backspace');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'New <b>name</b>' }).waitFor();
    await choose(page, 'Switch agent');
    await page.getByRole('dialog').getByLabel('Agent').selectOption('analyst');
    await page.getByRole('dialog').getByRole('button', { name: 'Switch' }).press('Enter');
    await page.locator('header').getByText('analyst').first().waitFor();
    await choose(page, "Take the tools' new");
    await shows(page, 'Taken');
    expect(await started.client.sessions.get(id)).toMatchObject({ title: 'New <b>name</b>', agent: 'analyst' });
  });

  it('prunes and compacts it by a key, once the person has confirmed it, and says what came of it', async () => {
    const { page, id } = await open('Tidied');
    const runs = async () => (await started.client.runs.list({ sessionId: id })).runs.map(({ kind }) => kind);
    for (const [key, words] of [
      ['p', 'Prune asked for'],
      ['c', 'Compaction asked for'],
    ] as const) {
      await page.keyboard.press(key);
      await page.getByRole('dialog').waitFor();
      // Words that were meant for the page press no button and reach no key of the page.
      await page.keyboard.type('an x r');
      expect(await page.getByRole('dialog').count()).toBe(1);
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect((await runs()).length).toBe(key === 'p' ? 1 : 2);
      await page.keyboard.press(key);
      await page.getByRole('dialog').waitFor();
      await page.keyboard.press('Control+Enter');
      await shows(page, words);
      await eventually(async () => (await started.client.sessions.get(id)).status === 'idle', 'it is done');
    }
    expect(await runs()).toEqual(['maintenance', 'maintenance', 'task']);
  });

  it('asks no longer whether to cancel a run that has ended meanwhile', async () => {
    const { simulator } = started.service;
    simulator.script('analyst', [{ text: 'It is done.', gates: { beforeEnd: 'ends' } }]);
    const { id } = await beginSession(started.client, 'analyst', 'Ends by itself', 'Do it');
    const { page } = await openTab(started.context, `${started.url}/console/sessions/${id}`);
    await shows(page, 'It is done.');
    await page.keyboard.press('x');
    await page.getByRole('dialog').waitFor();
    simulator.gate('ends').release();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await shows(page, 'The run has ended by itself');
    scriptWorld(simulator);
  });

  it('forks it from a message under a new title, at its end by a key, and says where a fork comes from', async () => {
    const { page, id } = await open('Forked');
    const message = page.locator('article').first();
    await message.hover();
    await message.getByRole('button', { name: 'Fork from here' }).click();
    await page.getByRole('dialog').getByLabel(/Title/).fill('The fork');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'The fork' }).waitFor();
    expect(page.url()).not.toContain(id);
    await eventually(async () => (await page.locator('article').count()) === 1, 'it has the first message alone');
    await page.getByLabel('Inspector').getByTitle(id).click();
    await page.getByRole('heading', { name: 'Forked' }).waitFor();
    await page.getByLabel('Message').blur();
    await page.keyboard.press('f');
    await page.waitForURL((url) => !url.href.includes(id));
    await shows(page, 'orders above 30 kg are not free');
  });

  it('says that its agent is gone, and goes on with the copy that it has', async () => {
    started.service.simulator.script('ghost', [{ text: 'I am still here.' }]);
    const uuid = await started.service.createSession({ name: 'ghost', model: 'simulated/ghost' });
    const { page } = await openTab(started.context, `${started.url}/console/sessions/${formatId('session', uuid)}`);
    await shows(page, 'No longer configured: the session goes on with its own copy.');
    await page.getByLabel('Message').fill('Are you there?');
    await page.keyboard.press('Enter');
    await shows(page, 'I am still here.');
  });

  it('shows the result that a run was asked for', async () => {
    started.service.simulator.script('analyst', [{ text: '{"total": 42, "note": "<b>all</b>"}' }]);
    const schema = { type: 'object', properties: { total: { type: 'number' } } } as const;
    const { id } = await started.client.sessions.create({ agent: 'analyst', title: 'Result' });
    const { runId } = await started.client.send(id, 'Sum it up', { output: { schema, mode: 'native' } });
    expect(await started.client.runs.wait(runId)).toMatchObject({ status: 'completed' });
    const { page } = await openTab(started.context, `${started.url}/console/sessions/${id}`);
    await page.getByLabel('Result', { exact: true }).getByText('"note": "<b>all</b>"').waitFor();
  });

  it.each([
    ['an answer', 'native', { text: '{"total": "<b>many</b>"}' }],
    ['a call', 'tool', { toolCalls: [{ name: 'final_result', input: { total: '<b>many</b>' } }] }],
  ] as const)(
    'shows what was asked, what came last and why it does not fit, of a run without its result: %s',
    async (name, mode, wrong) => {
      started.service.simulator.script('analyst', () => wrong);
      const schema = { type: 'object', properties: { total: { type: 'number', minimum: 17 } } } as const;
      const { id } = await started.client.sessions.create({ agent: 'analyst', title: `Misfit ${name}` });
      const { runId } = await started.client.send(id, 'Sum it up', { output: { schema, mode } });
      const run = await started.client.runs.wait(runId);
      expect(run).toMatchObject({ status: 'incomplete', reason: 'output_invalid', outputFormat: { schema, mode } });
      const { page, look } = await openTab(started.context, `${started.url}/console/sessions/${id}`);
      const ended = page.getByLabel('End of the run');
      await ended.getByLabel('Requested schema of the result').getByText('"minimum": 17').waitFor();
      expect(await ended.getByLabel('Last answer of the model').innerText()).toContain('"<b>many</b>"');
      expect(await ended.getByRole('alert').innerText()).toContain(run.error?.message);
      await look(`misfit-${mode}`);
      expect(await accessProblems(page)).toEqual([]);
      await page.setViewportSize({ width: 390, height: 800 });
      await look(`misfit-${mode}-phone`);
      expect(await tooWide(page)).toEqual([]);
      const [listed] = (await started.client.runs.list({ sessionId: id })).runs;
      expect(listed).not.toHaveProperty('outputFormat');
    },
  );

  it('lets go of its stream while nobody looks at it, and goes on when somebody does', async () => {
    const { page, id } = await open('Looked away from');
    const streams = new Set<string>();
    page.on('request', (request) => /\/(?:events|activity)/.test(request.url()) && streams.add(request.url()));
    const ended: string[] = [];
    page.on('requestfailed', (request) => ended.push(request.url()));
    await page.clock.install();
    const look = (isHidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${isHidden} });
        document.dispatchEvent(new Event('visibilitychange'))`);
    await look(true);
    await page.clock.runFor(16_000);
    for (const stream of ['/events', '/activity']) {
      await eventually(async () => ended.some((url) => url.includes(stream)), `the tab lets go of ${stream}`);
    }
    expect([...streams]).toEqual([]);
    await started.client.send(id, 'Open the page of the order');
    await look(false);
    await page.clock.runFor(1_000);
    await page.clock.resume();
    await page.getByText('1 call waits for an answer').waitFor();
    expect([...streams].some((url) => url.includes(id))).toBe(true);
  });
});
