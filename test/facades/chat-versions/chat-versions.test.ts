import { existsSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Tool } from '../../../src/tools/tool.ts';
import { findChromium, startBrowser } from '../../examples/browser.ts';
import { createWaitingTools } from '../../flow/waiting-scenario.ts';
import { eventually } from '../../support/eventually.ts';
import { PNG_BASE64 } from '../../support/png.ts';
import { type ChatService, startChatService } from '../ui-chat-fixture.ts';

const chromium = findChromium();
const root = path.join(import.meta.dirname, '../../..');

type Variant = Readonly<{ sdk: 5 | 6 | 7; isNamed: boolean; packages: readonly [string, string] }>;

// npm ci --prefix test/facades/chat-versions
const VARIANTS: readonly Variant[] = [
  { sdk: 5, isNamed: true, packages: ['ai-5', 'ai-react-5'] },
  { sdk: 6, isNamed: false, packages: ['ai-6', 'ai-react-6'] },
  { sdk: 7, isNamed: true, packages: ['ai', '@ai-sdk/react'] },
  { sdk: 7, isNamed: false, packages: ['ai', '@ai-sdk/react'] },
];
const isInstalled = ({ sdk }: Variant): boolean =>
  sdk === 7 || existsSync(path.join(import.meta.dirname, `node_modules/ai-${sdk}/package.json`));

const SCENARIOS = [
  'shows',
  'asks',
  'boss',
  'operator',
  'ships',
  'stops',
  'opens',
  'fails',
  'queues',
  'steers',
  'resets',
];

/** The page of a version, in one document. */
async function pageOf({ sdk, isNamed, packages: [ai, react] }: Variant): Promise<string> {
  const sends =
    sdk === 5 ? 'lastAssistantMessageIsCompleteWithToolCalls' : 'lastAssistantMessageIsCompleteWithApprovalResponses';
  const { outputFiles } = await build({
    stdin: {
      contents: `import { useChat } from '${react}';
import { DefaultChatTransport as transport, ${sends} as sendAutomaticallyWhen } from '${ai}';
import { openPage } from '${path.join(root, 'test/facades/chat-version-page.tsx')}';
void openPage({ useChat, transport, sendAutomaticallyWhen, headers: ${isNamed ? `{ 'x-ai-sdk-version': '${sdk}' }` : '{}'} });`,
      // The newest version is that of this repository; the folder of the earlier ones has an `ai` of their own.
      resolveDir: sdk === 7 ? root : import.meta.dirname,
    },
    bundle: true,
    write: false,
    platform: 'browser',
    jsx: 'automatic',
    // One React for the page and for the hook.
    alias: Object.fromEntries(['react', 'react-dom'].map((name) => [name, path.join(root, 'node_modules', name)])),
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  const script = outputFiles[0]?.text.replaceAll('</script', '<\\/script') ?? '';
  return `<!doctype html><link rel="icon" href="data:,"><body><script type="module">${script}</script>`;
}

const nameOf = ({ sdk, isNamed }: Variant): string => `${sdk}${isNamed ? '' : ', which it does not name'}`;

describe.runIf(chromium !== null).each(VARIANTS.filter(isInstalled).map((of) => ({ of, name: nameOf(of) })))(
  'a page with AI SDK $name',
  ({ of }) => {
    const { sdk, isNamed } = of;
    const stack = new AsyncDisposableStack();
    const { tools, ran } = createWaitingTools();
    /** A tool that needs approval and runs until it may end. */
    const shipping = Promise.withResolvers<void>();
    const shipTool: Tool = {
      name: 'ship',
      description: 'Ships.',
      inputSchema: { type: 'object', additionalProperties: true },
      needsApproval: true,
      execute: async () => {
        await shipping.promise;
        return 'shipped';
      },
    };
    let started: ChatService;
    let context: BrowserContext;

    beforeAll(async () => {
      const agents = SCENARIOS.map((name) => ({
        name,
        tools: name === 'boss' ? [{ agent: 'operator' }, 'test'] : ['test'],
      }));
      const [html, service, browser] = await Promise.all([
        pageOf(of),
        startChatService(agents, [...tools, shipTool]),
        startBrowser(chromium ?? ''),
      ]);
      started = stack.use(service);
      context = stack.use(browser).context;
      await context.route(`${started.url}/page?*`, (route) => route.fulfill({ contentType: 'text/html', body: html }));
    });
    afterAll(() => stack.disposeAsync());

    /** Opens a new chat with the agent. */
    async function open(agent: string, { headers = {} } = {}) {
      const page = await context.newPage();
      const failures: string[] = [];
      page.on('pageerror', (error) => failures.push(String(error)));
      await page.setExtraHTTPHeaders(headers);
      await page.goto(`${started.url}/page?id=${agent}&agent=${agent}`);
      return { page, failures, script: scriptOf(agent), ...handlesOf(page) };
    }

    const scriptOf = (agent: string) => (replies: Parameters<ChatService['service']['simulator']['script']>[1]) =>
      started.service.simulator.script(agent, replies);

    const handlesOf = (page: Page) => ({
      say: async (text: string) => {
        await page.getByLabel('Message').fill(text);
        await page.getByRole('button', { name: 'Send' }).click();
      },
      texts: () => page.locator('article.assistant .text').allInnerTexts(),
      tool: (name: string) => page.locator('.tool', { hasText: name }),
      stateOf: (name: string) => page.locator('.tool', { hasText: name }).getAttribute('data-state'),
      /** Decides about a call where the page asks. */
      decide: async (name: string, decision: 'Approve' | 'Deny') => {
        const asks = page.locator('section', { hasText: name, has: page.getByRole('button', { name: decision }) });
        await asks.getByRole('button', { name: decision }).click();
      },
      isReady: () => expect.poll(() => page.locator('output').innerText()).toBe('ready'),
      alerts: () => page.getByRole('alert').allInnerTexts(),
      buttons: () => page.getByRole('button', { name: /Approve|Deny/ }).count(),
    });

    it('shows reasoning, text, calls with their results, files and sources, and all of it after a reload', async () => {
      const { page, say, texts, stateOf, isReady, alerts, script } = await open('shows');
      script([
        { reasoning: 'Hm.', text: 'Let me look.', toolCalls: [{ name: 'look', input: { at: 'it' } }] },
        {
          ...{ text: 'See there.', sources: [{ url: 'https://example.com/a', title: 'A page' }] },
          ...{ documents: ['notes.txt'], pictures: [PNG_BASE64] },
        },
      ]);
      await say('Where is it?');
      await page.getByText('See there.').waitFor();
      await isReady();
      expect(await texts()).toEqual(['Let me look.', 'See there.']);
      expect(await page.locator('.reasoning').innerText()).toBe('Hm.');
      expect(await page.locator('.tool').innerText()).toMatch(/tool-look \{"at":"it"\} "look did it"/);
      expect(await stateOf('look')).toBe('output-available');
      expect(await page.locator('.file').innerText()).toMatch(/^\/v1\/blobs\//);
      expect(await page.locator('.source').allInnerTexts()).toEqual(['https://example.com/a', 'notes.txt']);
      const shown = await page.locator('article').allInnerTexts();
      await page.reload();
      await page.getByText('See there.').waitFor();
      expect(await page.locator('article').allInnerTexts()).toEqual(shown);
      expect(await alerts()).toEqual([]);
    });

    it('asks for approval, also after a reload, and does what it is told', async () => {
      const { page, say, texts, stateOf, decide, isReady, alerts, failures, script } = await open('asks');
      script([
        {
          text: 'May I?',
          toolCalls: [
            { name: 'deploy', input: { to: 'prod' } },
            { name: 'pay', input: { amount: 50 } },
          ],
        },
        { text: 'One of the two.' },
      ]);
      await say('Go');
      await page.getByRole('button', { name: 'Approve' }).nth(1).waitFor();
      await isReady();
      await page.reload();
      await page.getByRole('button', { name: 'Approve' }).nth(1).waitFor();
      const before = ran.length;
      await decide('deploy', 'Approve');
      await decide('pay', 'Deny');
      await page.getByText('One of the two.').waitFor();
      await isReady();
      expect(await texts()).toEqual(['May I?', 'One of the two.']);
      expect([await stateOf('deploy'), await stateOf('pay')]).toEqual([
        'output-available',
        sdk === 5 ? 'output-error' : 'output-denied',
      ]);
      expect(ran.slice(before).map(({ name }) => name)).toEqual(['deploy']);
      expect(await page.locator('.tool').count()).toBe(2);
      expect([await alerts(), failures]).toEqual([[], []]);
    });

    it('asks for approval of the call of a child', async () => {
      const { page, say, texts, tool, decide, isReady, alerts, script } = await open('boss');
      const { simulator } = started.service;
      simulator.script('operator', [{ toolCalls: [{ name: 'deploy', input: { to: 'prod' } }] }, { text: 'Deployed.' }]);
      script([{ toolCalls: [{ name: 'operator', input: { task: 'Deploy it' } }] }, { text: 'It is out.' }]);
      await say('Go');
      await page.getByRole('button', { name: 'Approve' }).waitFor();
      await isReady();
      const before = ran.length;
      await decide('deploy', 'Approve');
      await page.getByText('It is out.').waitFor();
      await isReady();
      expect(await texts()).toEqual(['It is out.']);
      expect(ran.slice(before).map(({ name }) => name)).toEqual(['deploy']);
      expect(await page.locator('.tool').count()).toBe(2);
      expect(await tool('operator').getAttribute('data-state')).toBe('output-available');
      expect(await alerts()).toEqual([]);
    });

    it('does not ask again while an approved call runs', async () => {
      const { page, say, stateOf, decide, isReady, buttons, alerts, script } = await open('ships');
      script([{ toolCalls: [{ name: 'ship', input: {} }] }, { text: 'It is on its way.' }]);
      await say('Go');
      await page.getByRole('button', { name: 'Approve' }).waitFor();
      await isReady();
      await decide('ship', 'Approve');
      const runs = started.service.deps.db.selectFrom('parts').select('state').where('state', '=', 'running');
      await eventually(async () => (await runs.execute()).length > 0, 'the approved call runs');
      await page.reload();
      await expect.poll(() => page.locator('output').innerText()).toBe('streaming');
      expect(await buttons()).toBe(0);
      expect(await stateOf('ship')).toBe(isNamed && sdk === 7 ? 'approval-responded' : 'input-available');
      shipping.resolve();
      await page.getByText('It is on its way.').waitFor();
      await isReady();
      expect(await stateOf('ship')).toBe('output-available');
      expect(await page.locator('.tool').count()).toBe(1);
      expect(await alerts()).toEqual([]);
    });

    it('stops, and keeps what was written', async () => {
      const { page, say, texts, isReady, alerts, script } = await open('stops');
      script([{ text: 'a b c d e f g h', chunkChars: 2, gates: { afterChunks: { count: 4, gate: 'stops' } } }]);
      await say('Count');
      await page.getByText('a b c d').waitFor();
      await page.getByRole('button', { name: 'Stop' }).click();
      await isReady();
      await page.reload();
      await page.getByText('a b c d').waitFor();
      expect([await texts(), await alerts()]).toEqual([['a b c d'], []]);
    });

    it('goes on after a reload in mid-answer: nothing is lost or doubled', async () => {
      const { page, say, texts, isReady, alerts, script } = await open('opens');
      const text = Array.from({ length: 40 }, (_, n) => `word${n}`).join(' ');
      script([
        { text: 'First I look.', toolCalls: [{ name: 'look', input: {} }] },
        { text, chunkChars: 7, gates: { afterChunks: { count: 20, gate: 'opens' } } },
      ]);
      await say('Tell me everything.');
      await page.getByText('word15').waitFor();
      await page.reload();
      await page.getByText('word15').waitFor();
      started.service.simulator.gate('opens').release();
      await page.getByText('word39').waitFor();
      await isReady();
      expect(await texts()).toEqual(['First I look.', text]);
      expect(await page.locator('.tool').count()).toBe(1);
      expect(await page.locator('article').count()).toBe(2);
      expect(await alerts()).toEqual([]);
    });

    it('says why an answer failed or was refused, and goes on', async () => {
      const { page, say, texts, isReady, alerts, script } = await open('fails');
      script([{ text: 'Better now.' }]);
      started.service.simulator.fault('fails', { status: 401 });
      await say('Hello');
      await expect.poll(alerts).toEqual([expect.stringMatching(/\(auth\)$/)]);
      await say('Again');
      await page.getByText('Better now.').waitFor();
      await isReady();
      expect([await texts(), await alerts()]).toEqual([['Better now.'], []]);
      await page.goto(`${started.url}/page?id=nobody&agent=nobody`);
      await say('Hello');
      await expect.poll(alerts).toEqual([expect.stringMatching(/^there is no agent .*\(agent_not_found\)$/)]);
    });

    it('queues a message that is sent in mid-answer, says so, and shows both answers', async () => {
      const { page, say, isReady, alerts, script } = await open('queues');
      script([{ text: 'One.', gates: { beforeEnd: 'queues' } }, { text: 'Two.' }]);
      await say('First');
      await page.getByText('One.').waitFor();
      await say('Second');
      await page.locator('.queue', { hasText: '{"position":1}' }).waitFor();
      started.service.simulator.gate('queues').release();
      await page.getByText('Two.').waitFor();
      await isReady();
      const texts = async () => (await page.locator('article .text').allInnerTexts()).toSorted();
      expect(await texts()).toEqual(['First', 'One.', 'Second', 'Two.']);
      await page.reload();
      await page.getByText('Two.').waitFor();
      expect(await page.locator('article .text').allInnerTexts()).toEqual(['First', 'One.', 'Second', 'Two.']);
      expect(await alerts()).toEqual([]);
    });

    it('shows a message that joins the answer', async () => {
      const { page, say, texts, isReady, alerts, script } = await open('steers');
      script([{ text: 'One.', gates: { beforeEnd: 'steers' } }, { text: 'Two.' }]);
      await say('First');
      await page.getByText('One.').waitFor();
      const parts = [{ type: 'text', text: 'Second' }];
      const body = { id: 'steers', delivery: 'steer', message: { role: 'user', parts } };
      const joined = new AbortController();
      const headers = { 'content-type': 'application/json' };
      const init = { method: 'POST', headers, body: JSON.stringify(body), signal: joined.signal };
      expect((await fetch(`${started.url}/api/chat`, init)).status).toBe(200);
      joined.abort();
      started.service.simulator.gate('steers').release();
      await page.getByText('Two.').waitFor();
      await isReady();
      expect(await page.locator('article.assistant .steering').allInnerTexts()).toEqual([
        expect.stringContaining('Second'),
      ]);
      await page.reload();
      await page.locator('article.assistant .steering', { hasText: 'Second' }).waitFor();
      expect([await texts(), await alerts()]).toEqual([['One.', 'Two.'], []]);
    });

    it('shows a step that is tried again, and once only after a reload', async () => {
      const { page, say, texts, isReady, alerts, script } = await open('resets');
      script([{ text: 'The whole answer.', chunkChars: 4, gates: { afterChunks: { count: 1, gate: 'resets' } } }]);
      started.service.simulator.fault('resets', { kind: 'cut', afterChunks: 2 });
      await say('Hi');
      await page.locator('article.assistant .text').waitFor();
      started.service.simulator.gate('resets').release();
      await page.getByText('The whole answer.').waitFor();
      await isReady();
      const isNative = isNamed && sdk === 7;
      const broken = isNative ? [] : [expect.stringMatching(/^The( whol)?$/)];
      expect(await texts()).toEqual([...broken, 'The whole answer.']);
      expect(await page.locator('hr').count()).toBe(isNative ? 0 : 1);
      await page.reload();
      await page.getByText('The whole answer.').waitFor();
      expect([await texts(), await alerts()]).toEqual([['The whole answer.'], []]);
    });
  },
);
