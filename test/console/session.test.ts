import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { contextPolicySchema } from '../../src/domain/context/limits/policy.ts';
import { parseId } from '../../src/domain/ids.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { readingReplies, readTool } from '../compaction/compaction-support.ts';
import { findChromium } from '../examples/browser.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { paintPng } from '../support/png.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { type Console, startConsole } from './support/console.ts';
import { fillSession } from './support/large-session.ts';
import { accessProblems, openTab, tooWide } from './support/opened.ts';

const chromium = findChromium();

const LARGE_CHARS = 5_000_000;
const dumpTool: Tool = {
  name: 'dump',
  description: 'Dumps.',
  inputSchema: { type: 'object', additionalProperties: true },
  execute: async () => 'dumped '.repeat(LARGE_CHARS / 7),
};

const AGENTS = ['streams', 'queues', 'asks', 'shows', 'fails', 'large', 'other'];

describe.runIf(chromium !== null)('the page of a session', () => {
  const stack = new AsyncDisposableStack();
  const waiting = createWaitingTools();
  let started: Console;
  beforeAll(async () => {
    const fills = contextPolicySchema.parse({ maxContextTokens: 16_000 });
    const unpruned = contextPolicySchema.parse({ maxContextTokens: 16_000, prune: { enabled: false } });
    started = stack.use(
      await startConsole(
        chromium ?? '',
        [
          ...AGENTS.map((name) => ({ name, tools: ['test'] })),
          { name: 'fills', tools: ['test'], context: fills },
          { name: 'long', tools: ['test'], context: unpruned },
        ],
        [...waiting.tools, readTool, dumpTool],
      ),
    );
  });
  afterAll(() => stack.disposeAsync());
  // A browser has six connections to a service: tabs that stay open would take those of the next ones.
  afterEach(() => Promise.all(started.context.pages().map((page) => page.close())));

  /** A new session of the agent, in a tab. */
  async function open(agent: string, options: Parameters<typeof openTab>[2] & { title?: string; base?: string } = {}) {
    const { title = `Of ${agent}`, base = started.url } = options;
    const { id } = await started.client.sessions.create({ agent, title });
    const tab = await openTab(started.context, `${base.replace(/\/$/, '')}/console/sessions/${id}`, options);
    const { page } = tab;
    await page.getByLabel('Message').waitFor();
    return {
      ...tab,
      id,
      say: async (text: string) => {
        await page.getByLabel('Message').fill(text);
        await page.keyboard.press('Enter');
      },
      answers: () => page.getByLabel('Transcript').locator('article[aria-label^="Agent"] .prose').allInnerTexts(),
      steps: page.getByLabel('Steps', { exact: true }),
    };
  }

  it('shows an answer as it is written, in two tabs, and goes on by itself after the service was away', async () => {
    const text = Array.from({ length: 60 }, (_, n) => `word${n}`).join(' ');
    started.service.simulator.script('streams', [
      { reasoning: 'First I think.', text, chunkChars: 7, gates: { afterChunks: { count: 20, gate: 'streams' } } },
    ]);
    await using proxy = await startTcpProxy(started.url);
    const tab = await open('streams', { base: proxy.via(started.url) });
    await tab.page.getByText('Nothing has been said yet').waitFor();
    const other = await openTab(started.context, `${started.url}/console/sessions/${tab.id}`);
    await tab.say('Tell me everything');
    await tab.page.getByText('word10').waitFor();
    await other.page.getByText('word10').waitFor();
    await tab.page.getByText('running step 1').waitFor();
    await tab.steps.getByTitle('stream, so far').waitFor();
    await tab.look('session-streaming');
    await proxy.refuse();
    await tab.page.getByText('The service has not answered for').waitFor();
    started.service.simulator.gate('streams').release();
    await other.page.getByText('word59').waitFor();
    await proxy.restore();
    await tab.page.getByText('word59').waitFor();
    await tab.page.getByText('The service has not answered for').waitFor({ state: 'detached' });
    await tab.page.locator('header').getByText('idle').waitFor();
    expect(await tab.answers()).toEqual([text]);
    expect(await tab.page.locator('article').count()).toBe(2);
    expect(other.complaints).toEqual([]);
  });

  it('queues, edits, promotes and removes messages, takes files, and cancels, by keys', async () => {
    started.service.simulator.script('queues', [
      { text: 'The first answer.', gates: { beforeEnd: 'queues' } },
      { text: 'The second.', gates: { beforeEnd: 'again' } },
    ]);
    const { page, say, look, complaints } = await open('queues');
    await page.getByLabel('Files', { exact: true }).setInputFiles([
      { name: 'box.png', mimeType: 'image/png', buffer: paintPng(80, 40, [200, 170, 40]) },
      { name: 'wrong.txt', mimeType: 'text/plain', buffer: Buffer.from('Not this one.') },
    ]);
    await page.getByRole('button', { name: 'Remove wrong.txt' }).click();
    await page.getByText('uploading').waitFor({ state: 'detached' });
    await say('What is this?');
    await page.getByText('The first answer.').waitFor();
    await expect.poll(() => page.evaluate(`document.querySelector('article img').naturalWidth`)).toBe(80);
    await page.getByLabel('While the run is active').selectOption('followup');
    await say('Later, please');
    await say('Not at all');
    const queued = page.getByLabel('Queued messages', { exact: true });
    await queued.getByText('2 messages').waitFor();
    await look('session-queue');
    await queued.locator('li').nth(0).getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Queued message', { exact: true }).fill('Sooner, please');
    await page.keyboard.press('Enter');
    await queued.getByText('Sooner, please').waitFor();
    await queued.locator('li').nth(1).getByRole('button', { name: 'Remove' }).click();
    await queued.getByText('1 message queued').waitFor();
    await queued.getByRole('button', { name: 'Promote' }).click();
    await queued.getByText('steer').waitFor();
    started.service.simulator.gate('queues').release();
    await page.getByText('The second.').waitFor();
    await page.locator('article', { hasText: 'Sooner, please' }).waitFor();
    await queued.waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await page.keyboard.press('x');
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click();
    await page.getByText('The run was cancelled').waitFor();
    started.service.simulator.script('queues', [{ text: 'On it goes.' }]);
    await page.keyboard.press('r');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Control+Enter');
    await page.getByText('On it goes.').waitFor();
    expect(complaints).toEqual([]);
  });

  it('asks in place for what calls wait for, by mouse and by keys', async () => {
    const calls = ['one', 'two', 'three'].map((to) => ({ name: 'deploy', input: { to } }));
    started.service.simulator.script('asks', [
      { text: 'May I?', toolCalls: [...calls, { name: 'browser', input: { open: 'it' } }] },
      { text: 'All answered.' },
    ]);
    const { page, say, look, complaints } = await open('asks');
    await say('Go on');
    await page.getByText('4 calls wait for an answer').waitFor();
    await look('session-asks');
    expect(await accessProblems(page)).toEqual([]);
    await page.getByLabel('Message').blur();
    await page.keyboard.press('a');
    await page.keyboard.press('Enter');
    await page.getByText('3 calls wait').waitFor();
    const asked = (index: number) => page.locator('[data-required]').nth(index);
    await asked(0).getByRole('button', { name: 'other arguments' }).click();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('{"to": "staging"}');
    await page.keyboard.press('Control+Enter');
    await page.getByText('2 calls wait').waitFor();
    await asked(0).getByRole('button', { name: 'Deny' }).click();
    await page.keyboard.type('Not today');
    await page.keyboard.press('Control+Enter');
    await page.getByText('1 call waits').waitFor();
    await asked(0).getByRole('button', { name: 'Give its output' }).click();
    await page.keyboard.type('It is open');
    await page.keyboard.press('Control+Enter');
    await page.getByText('All answered.').waitFor();
    expect(waiting.ran.map(({ input }) => input)).toEqual([{ to: 'one' }, { to: 'staging' }]);
    await page.locator('[data-call]', { hasText: 'three' }).getByText('denied').waitFor();
    expect(complaints).toEqual([]);
  });

  it('asks for an answer, although its first read of the runs was older than the question and came after it', async () => {
    started.service.simulator.script('asks', [
      { text: 'Soon.', toolCalls: [{ name: 'deploy', input: { to: 'late' } }], gates: { beforeEnd: 'late' } },
      { text: 'Answered late.' },
    ]);
    const { id } = await started.client.sessions.create({ agent: 'asks', title: 'Overtaken' });
    const { runId } = await started.client.send(id, 'Go on');
    await eventually(async () => (await started.client.runs.get(runId)).status === 'running', 'the run is at work');
    const { page } = await openTab(started.context, 'about:blank');
    const [isRead, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await page.route(
      (url) => url.pathname === '/v1/runs' && url.searchParams.get('sessionId') === id,
      async (route) => {
        const response = await route.fetch();
        isRead.resolve();
        await asked.promise;
        await route.fulfill({ response });
      },
      { times: 1 },
    );
    await page.goto(`${started.url}/console/sessions/${id}`);
    await isRead.promise;
    started.service.simulator.gate('late').release();
    await page.locator('header').getByText('waits for').waitFor();
    asked.resolve();
    await page.getByText('1 call waits for an answer').waitFor();
    await page.locator('[data-required]').getByRole('button', { name: 'Approve', exact: true }).click();
    await page.getByText('Answered late.').waitFor();
  });

  it('shows each step: its phases, what the model was shown, what came back; the address keeps it', async () => {
    started.service.simulator.script('fills', readingReplies(10, 1_500));
    const { page, say, steps, look, id, origins, complaints } = await open('fills', { width: 1440, height: 900 });
    await say('Read all of it');
    await page.locator('header').getByText('idle').waitFor();
    await page.getByText('All read.').waitFor();
    await steps
      .getByText(/prune|round 1/)
      .first()
      .waitFor();
    await page.getByLabel('Message').blur();
    await page.keyboard.press('k');
    await page.getByText('Proven equal to what was sent, by its hash.').waitFor();
    const hidden = page.locator('section[aria-label^="Message"] button', { hasText: /pruned|cut/ }).first();
    if ((await hidden.count()) > 0) {
      await hidden.click();
      await page.getByRole('button', { name: 'Show what it was' }).first().click();
      await page.getByLabel('Inspector').getByLabel('Output').first().waitFor();
    }
    await look('session-request');
    await page.keyboard.press('4');
    await page.getByText('time to the first token').waitFor();
    expect(page.url()).toMatch(/step=\d+&tab=usage/);
    await page.reload();
    await page.getByText('time to the first token').waitFor();
    await steps.locator('[data-step="1"]').scrollIntoViewIfNeeded();
    await steps.locator('[data-step="1"]').click();
    await page.getByRole('tab', { name: 'Tools' }).click();
    await page.getByLabel('Inspector').getByLabel('Output').waitFor();
    await page.getByRole('tab', { name: 'Response' }).click();
    await page.getByRole('button', { name: 'Raw JSON' }).click();
    await page.getByRole('dialog').getByText('"kind": "step"').waitFor();
    await page.keyboard.press('Escape');
    expect(await accessProblems(page)).toEqual([]);
    for (const scheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width: 390, height: 800 });
      for (const pane of ['Transcript', 'Steps', 'Details']) {
        await page.getByRole('button', { name: pane, exact: true }).click();
        await look(`session-phone-${pane}-${scheme}`);
        expect(await tooWide(page), pane).toEqual([]);
        expect(await accessProblems(page), pane).toEqual([]);
      }
      await page.setViewportSize({ width: 1440, height: 900 });
    }
    await look('session-dark');
    expect([...origins]).toEqual([started.url]);
    expect(complaints).toEqual([]);
    await started.client.sessions.delete(id);
    await page.getByText('The session is not here').waitFor();
  });

  it('leads through a long run: its chart keeps to its pane, failed compactions are red, and the unusual is found', async () => {
    const { simulator } = started.service;
    simulator.script('long', readingReplies(90, 500));
    simulator.summaries(Array.from({ length: 8 }, () => 'garbage' as const));
    const { id } = await started.client.sessions.create({ agent: 'long' });
    const { runId } = await started.client.send(id, 'Read the whole of it, please');
    expect(await started.client.runs.wait(runId)).toMatchObject({ status: 'completed', steps: 91 });
    simulator.summaries(Array.from({ length: 4 }, () => 'garbage' as const));
    await started.client.runs.wait((await started.client.sessions.compact(id)).runId);
    const { page, look, complaints } = await openTab(started.context, `${started.url}/console/sessions/${id}`);
    await page.getByRole('heading', { name: 'Read the whole of it, please' }).waitFor();
    await page.getByRole('status').getByText('The last compaction failed').waitFor();
    const bars = page.getByLabel('Context of each step').getByRole('button', { includeHidden: true });
    await eventually(async () => (await bars.count()) > 40, 'the chart has the whole run');
    expect(await bars.count()).toBeLessThanOrEqual(72);
    await page.getByLabel('Inspector').getByText('failed compactions').waitFor();
    await page.getByLabel('Jump to').selectOption({ label: 'Compaction 1 failed' });
    const failed = page.getByText('compaction 1: The summary needs the heading ## Goal');
    await failed.waitFor();
    expect(await failed.evaluate((element) => element.className)).toContain('text-failed');
    await look('session-long');
    await page.getByRole('button', { name: 'Unusual only' }).click();
    await eventually(async () => (await page.locator('[data-step]').count()) < 10, 'the usual steps are gone');
    await failed.waitFor();
    expect(await accessProblems(page)).toEqual([]);
    await page.setViewportSize({ width: 390, height: 800 });
    for (const pane of ['Transcript', 'Steps', 'Details']) {
      await page.getByRole('button', { name: pane, exact: true }).click();
      await look(`session-long-phone-${pane}`);
      expect(await tooWide(page), pane).toEqual([]);
    }
    expect(complaints).toEqual([]);
  });

  it('executes nothing, and stays usable with what is too large or broken', async () => {
    const hostile = '<img src=x onerror="globalThis.hit=1"><script>globalThis.hit=1</script>';
    started.service.simulator.script('shows', [
      { text: `${hostile} [bad](javascript:globalThis.hit=1) ![spy](https://example.com/spy.png) שלום עולם` },
      { text: 'Now the dump.', toolCalls: [{ name: 'dump', input: { html: hostile } }] },
      { text: 'Dumped.' },
    ]);
    const { page, say, id, look, origins, complaints } = await open('shows', { title: `Title ${hostile}` });
    await say(`Hello ${hostile}`);
    await page.getByText('שלום').waitFor();
    expect(await page.getByLabel('Agent, step 1').first().innerText()).toContain(hostile);
    const broken = await started.client.blobs.upload(
      new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2]),
    );
    const part = { type: 'file', blobId: broken.id, mediaType: 'image/png', filename: 'broken.png' } as const;
    await started.client.send(id, [{ type: 'text', text: 'x'.repeat(100_000) }, part]);
    await page.getByText('Dumped.').waitFor();
    await page.getByText('Show more: 94 kB follow').waitFor();
    await page.getByText('cannot be shown: its bytes are no PNG image').waitFor();
    await page.locator('[data-call] button').first().click();
    await page.getByRole('button', { name: 'Show the whole output' }).click();
    await page.getByText(/The whole output: 5\.0 MB/).waitFor();
    await look('session-hostile');
    expect(await page.evaluate('globalThis.hit')).toBeUndefined();
    expect(await tooWide(page)).toEqual([]);
    expect([...origins]).toEqual([started.url]);
    expect(complaints).toEqual([]);
  });

  it('says why a run failed in the words of the provider, and goes on in a fork or by a resume', async () => {
    const { simulator } = started.service;
    simulator.script('fails', [{ text: 'Now it works.' }]);
    const message = 'Incorrect API key provided: sk-abcd.';
    simulator.fault('fails', { status: 401, body: { error: { message, code: 'invalid_api_key' } } });
    const { page, say, look, id } = await open('fails');
    await say('Try it');
    await page.getByText('The run failed').waitFor();
    await page.getByRole('alert').filter({ hasText: message }).waitFor();
    await look('session-failed');
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('Now it works.').waitFor();
    await page.keyboard.press('e');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('Try it in a fork');
    await page.getByRole('button', { name: 'Send in a fork' }).click();
    await page.waitForURL((url) => !url.href.includes(id));
    await page.locator('article', { hasText: 'Try it in a fork' }).waitFor();
    await page.getByText('Now it works.').waitFor();
    expect(await page.locator('article').count()).toBe(2);
  });

  it('holds a part of 10 000 messages, from the end to the beginning', async () => {
    const { id } = await started.client.sessions.create({ agent: 'large', title: 'Large' });
    await fillSession(started.service.deps.db, parseId('session', id) ?? '', 500);
    const { page, look, complaints } = await openTab(started.context, `${started.url}/console/sessions/${id}`);
    await page.getByText('Step 19 of run 499').waitFor();
    await look('session-large');
    await eventually(async () => {
      await page.evaluate(`document.querySelector('[aria-label="Transcript"]').scrollTop = 0`);
      return (await page.getByText('Question 0:').count()) > 0;
    }, 'the first message is shown');
    expect(await page.locator('[aria-label="Transcript"] [data-index]').count()).toBeLessThan(60);
    await page.getByRole('button', { name: 'to the end' }).click();
    await page.getByText('Step 19 of run 499').waitFor();
    expect(complaints).toEqual([]);
  });

  it('opens from a search at the message with the words, by mouse, by the palette, and when loaded again', async () => {
    const { id } = await started.client.sessions.create({ agent: 'large', title: 'Found' });
    await fillSession(started.service.deps.db, parseId('session', id) ?? '', 12);
    await sql`update sessions set words_due_at = clock_timestamp() where title = 'Found'`.execute(
      started.service.deps.db,
    );
    const found = async () => (await started.client.sessions.list({ q: 'question 4' })).sessions[0]?.hit?.seq === 81;
    await eventually(found, 'the words are indexed');
    const { page, look, complaints } = await openTab(started.context, `${started.url}/console/sessions?q=question+4`);
    const isAtHit = async (): Promise<void> => {
      await page.waitForURL(/at=81/);
      const message = page.locator('article[data-seq="81"]');
      await eventually(async () => {
        const [list, box] = [await page.getByLabel('Transcript').boundingBox(), await message.boundingBox()];
        return list !== null && box !== null && box.y >= list.y - 1 && box.y < list.y + list.height / 2;
      }, 'the message is in the upper half');
      expect(await message.evaluate((element) => element.className)).toContain('bg-chosen');
    };
    await page.getByRole('link', { name: /Found/ }).click();
    await isAtHit();
    await look('session-found');
    await page.reload();
    await page.getByText('Question 4:').waitFor();
    await isAtHit();
    await page.setViewportSize({ width: 390, height: 800 });
    await isAtHit();
    await page.goto(`${started.url}/console/sessions`);
    await page.getByRole('link', { name: /Found/ }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('question 4');
    await page.getByRole('option', { name: /Found.*Question 4/ }).waitFor();
    await page.keyboard.press('Enter');
    await isAtHit();
    expect(complaints).toEqual([]);
  });

  // The last one: from its key on the service needs one.
  it('shows with a key that may only read why nothing can be done, and asks for another one when it is revoked', async () => {
    const { page, id } = await open('other');
    await page.goto('about:blank');
    const { createTestKey } = await import('../support/keys.ts');
    const { revokeApiKey } = await import('../../src/store/around/api-keys.ts');
    const { db } = started.service.deps;
    const key = await createTestKey(db, 'default', ['read']);
    await page.goto(`${started.url}/console/sessions/${id}`);
    await page.getByLabel('API key').fill(key.secret);
    await page.keyboard.press('Enter');
    await page.getByPlaceholder('Your key lacks the scope write').waitFor();
    expect(await page.getByLabel('Message').isDisabled()).toBe(true);
    expect(await page.getByRole('button', { name: 'Cancel' }).getAttribute('title')).toBe(
      'Your key lacks the scope write',
    );
    await db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    await page.getByText('Your key was revoked').waitFor();
  });
});
