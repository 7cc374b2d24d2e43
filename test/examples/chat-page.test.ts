import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startChatPage } from '../../examples/chat/server.ts';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import { contextPolicySchema } from '../../src/domain/context/limits/policy.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { readingReplies, readTool } from '../compaction/compaction-support.ts';
import { type ChatService, startChatService } from '../facades/ui-chat-fixture.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { paintPng } from '../support/png.ts';
import { findChromium, startBrowser } from './browser.ts';

const chromium = findChromium();
const WINDOW = 16_000;
/** The folder for pictures of the page, for a person who wants to look at them. Without it none are taken. */
const screenshots = process.env['BATON_TEST_SCREENSHOTS'];

const ofTool = paintPng(160, 60, [40, 120, 90]);
const ofModel = paintPng(160, 60, [170, 90, 30]);

const drawTool: Tool = {
  name: 'draw',
  description: 'Draws.',
  inputSchema: { type: 'object', additionalProperties: true },
  execute: async () => 'drawn',
  toModelOutput: () => ({
    type: 'content',
    value: [
      { type: 'text', text: 'Drawn.' },
      { type: 'file', mediaType: 'image/png', data: { type: 'data', data: ofTool } },
    ],
  }),
};

describe.runIf(chromium !== null)('the chat page in a browser', () => {
  const stack = new AsyncDisposableStack();
  let started: ChatService;
  let context: BrowserContext;

  beforeAll(async () => {
    const full = contextPolicySchema.parse({ maxContextTokens: WINDOW, prune: { enabled: false } });
    const clears = contextPolicySchema.parse({ maxContextTokens: WINDOW });
    const agents = [
      'streams',
      'queues',
      'stops',
      'asks',
      'refuses',
      'shows',
      'opens',
      'restarts',
      'breaks',
      'tabs',
      'fails',
      'writes',
    ].map((name) => ({ name, tools: ['test'] }));
    const tools = [...createWaitingTools().tools, readTool, drawTool];
    const filling = [
      { name: 'fills', tools: ['test'], context: full },
      { name: 'clears', tools: ['test'], context: clears },
    ];
    started = stack.use(await startChatService([...agents, ...filling], tools));
    context = stack.use(await startBrowser(chromium ?? '')).context;
  });
  afterAll(() => stack.disposeAsync());

  /** A new chat with the agent, and a way to look at it. */
  async function openChat(agent: string, batonUrl = started.url) {
    const server = stack.use(await startChatPage({ batonUrl, agent }));
    const page = await context.newPage();
    const failures: string[] = [];
    page.on('pageerror', (error) => failures.push(String(error)));
    await page.goto(server.url);
    return {
      page,
      failures,
      say: (text: string) => say(page, text),
      answers: () => page.locator('article.assistant .text').allInnerTexts(),
      look: async (name: string) => {
        if (screenshots !== undefined) await page.screenshot({ path: path.join(screenshots, `${agent}-${name}.png`) });
      },
    };
  }

  async function say(page: Page, text: string): Promise<void> {
    await page.getByLabel('Message').fill(text);
    await page.keyboard.press('Enter');
  }

  it('streams, and a reload in mid-answer loses and doubles nothing', async () => {
    const { simulator } = started.service;
    const text = Array.from({ length: 80 }, (_, n) => `word${n} `).join('');
    simulator.script('streams', [
      { text: 'First I look.', toolCalls: [{ name: 'look', input: { at: 'the files' } }] },
      { text, chunkChars: 7, gates: { afterChunks: { count: 40, gate: 'streams' } } },
    ]);
    const { page, say, answers, look, failures } = await openChat('streams');
    await look('empty');
    await say('Tell me everything.');
    await page.getByText('word30').waitFor();
    await look('streaming');
    await page.reload();
    await page.getByText('word30').waitFor();
    expect(await page.getByLabel('Message').getAttribute('placeholder')).toContain('will be queued');
    simulator.gate('streams').release();
    await page.getByText('word79').waitFor();
    await page.getByRole('button', { name: 'Send' }).waitFor();
    expect(await answers()).toEqual(['First I look.', text.trim()]);
    expect(await page.locator('article').count()).toBe(2);
    expect(await page.locator('.tool summary').innerText()).toMatch(/look[\s\S]*"at":"the files"[\s\S]*done/);
    expect(await page.locator('.meter').innerText()).toMatch(/context \d+ %[\s\S]*[1-9]\d* of [\d,]+ tokens/);
    await look('done');
    await page.reload();
    await page.getByText('word79').waitFor();
    expect(await answers()).toEqual(['First I look.', text.trim()]);
    expect(failures).toEqual([]);
  });

  it('takes messages while the agent is at work, says that they wait, and answers them', async () => {
    const { simulator } = started.service;
    simulator.script('queues', [
      { text: 'The first answer.', gates: { beforeEnd: 'queues' } },
      { text: 'The second.' },
    ]);
    const { page, say, answers, look, failures } = await openChat('queues');
    await say('First');
    await page.getByText('The first answer.').waitFor();
    expect(await page.getByLabel('Message').getAttribute('placeholder')).toContain('will be queued');
    // The page shows the message before the service has accepted it; a reload would abort its request.
    const accepted = page.waitForResponse((response) => response.request().method() === 'POST');
    await say('Second');
    await accepted;
    await page.locator('header .badge', { hasText: '1 queued' }).waitFor();
    expect(await page.locator('article.queued').innerText()).toMatch(/Second[\s\S]*queued/);
    await look('queued');
    await page.reload();
    await page.locator('header .badge', { hasText: '1 queued' }).waitFor();
    simulator.gate('queues').release();
    await page.getByText('The second.').waitFor();
    await page.getByRole('button', { name: 'Send' }).waitFor();
    // The first answer ended before the page asked for a running stream, so it comes with the stored messages.
    await expect.poll(answers).toEqual(['The first answer.', 'The second.']);
    expect(await page.locator('.badge').count()).toBe(0);
    await look('answered');
    expect(failures).toEqual([]);
  });

  it('shows an answer that ends while the page is being opened', async () => {
    const { simulator, deps } = started.service;
    simulator.script('opens', [{ text: 'Just in time.', gates: { beforeFirstChunk: 'opens' } }]);
    const { page, say, answers, failures } = await openChat('opens');
    await say('Answer me');
    await simulator.gate('opens').reached;
    const asked = Promise.withResolvers<void>();
    const hasEnded = Promise.withResolvers<void>();
    await page.route('**/stream', async (route) => {
      asked.resolve();
      await hasEnded.promise;
      await route.continue();
    });
    await page.reload();
    await asked.promise;
    simulator.gate('opens').release();
    const runs = deps.db.selectFrom('runs').innerJoin('sessions', 'sessions.id', 'runs.session_id');
    const run = () => runs.select('runs.status').where('agent_name', '=', 'opens').executeTakeFirst();
    await eventually(async () => (await run())?.status === 'completed', 'the run has ended');
    hasEnded.resolve();
    await page.getByText('Just in time.').waitFor();
    expect(await answers()).toEqual(['Just in time.']);
    expect(failures).toEqual([]);
  });

  it('stops, and keeps what was written', async () => {
    const { simulator } = started.service;
    const gates = { afterChunks: { count: 4, gate: 'stops' } };
    simulator.script('stops', [{ text: 'a b c d e f g h', chunkChars: 2, gates }]);
    const { page, say, answers, look, failures } = await openChat('stops');
    await say('Count');
    await page.getByText('a b c d').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('button', { name: 'Send' }).waitFor();
    expect(await answers()).toEqual(['a b c d']);
    const runs = started.service.deps.db.selectFrom('runs').innerJoin('sessions', 'sessions.id', 'runs.session_id');
    const stopped = () => runs.select('runs.status').where('agent_name', '=', 'stops').executeTakeFirst();
    await eventually(async () => (await stopped())?.status === 'cancelled', 'the run is cancelled');
    expect(await page.locator('article.assistant .badge').allInnerTexts()).toEqual(['stopped']);
    await look('stopped');
    await page.reload();
    await page.getByText('a b c d').waitFor();
    expect(await page.locator('article.assistant .badge').allInnerTexts()).toEqual(['stopped']);
    expect(failures).toEqual([]);
  });

  it('asks before a tool runs, also after a reload, and does what it is told', async () => {
    const { simulator } = started.service;
    const calls = [
      { name: 'deploy', input: { to: 'production' } },
      { name: 'pay', input: { amount: 50 } },
    ];
    simulator.script('asks', [{ text: 'May I?', toolCalls: calls }, { text: 'One of the two.' }]);
    const { page, say, answers, look, failures } = await openChat('asks');
    await say('Go on');
    await page.getByRole('button', { name: 'Approve' }).nth(1).waitFor();
    await look('asked');
    const chat = page.url();
    // The page in its old state looks at the session, too: it must have gone before looks are counted.
    await page.goto('about:blank');
    // A page looks twice when it is opened. Its second look is answered only after the first decision.
    const allowed = Promise.withResolvers<void>();
    let looks = 0;
    await page.route('**/api/chat/*/messages', async (route) => {
      looks += 1;
      const response = await route.fetch();
      if (looks > 1) await allowed.promise;
      await route.fulfill({ response });
    });
    const lookedAgain = page.waitForResponse((response) => looks > 1 && response.url().endsWith('/messages'));
    // A replay of the answer, if the page asked for it, would come after the first decision.
    const decided = Promise.withResolvers<void>();
    await page.route('**/stream', async (route) => {
      await decided.promise;
      await route.continue();
    });
    await page.goto(chat);
    const toolOf = (name: string) => page.locator('.tool', { hasText: name });
    await toolOf('deploy').getByRole('button', { name: 'Approve' }).click();
    await expect.poll(() => toolOf('deploy').getByRole('button').count()).toBe(0);
    decided.resolve();
    await expect.poll(() => looks).toBe(2);
    allowed.resolve();
    await (await lookedAgain).finished();
    await toolOf('pay').getByRole('button', { name: 'Deny' }).click();
    await page.getByText('One of the two.').waitFor();
    expect(await toolOf('deploy').locator('.state').innerText()).toBe('done');
    expect(await toolOf('pay').locator('.state').innerText()).toBe('denied');
    expect(await answers()).toEqual(['May I?', 'One of the two.']);
    await look('answered');
    expect(failures).toEqual([]);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  });

  it('keeps an approval that did not reach the service, says so, and sends it again', async () => {
    const { simulator } = started.service;
    const calls = [{ name: 'deploy', input: { to: 'production' } }];
    simulator.script('refuses', [{ text: 'May I?', toolCalls: calls }, { text: 'It is done.' }]);
    const { page, say, answers, failures } = await openChat('refuses');
    await say('Go on');
    const approve = page.getByRole('button', { name: 'Approve' });
    await approve.waitFor();
    await page.route('**/api/chat', (route) => route.abort(), { times: 1 });
    await approve.click();
    await page.getByText('The service does not answer at the moment.').waitFor();
    // The page has read that the service still asks, and keeps the approval all the same.
    await page.waitForResponse((response) => response.url().endsWith('/messages'));
    await page.waitForResponse((response) => response.url().endsWith('/messages'));
    expect(await approve.count()).toBe(0);
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.getByText('It is done.').waitFor();
    await expect.poll(() => page.locator('.failure').count()).toBe(0);
    expect(await page.locator('.tool .state').innerText()).toBe('done');
    expect(await answers()).toEqual(['May I?', 'It is done.']);
    expect(failures).toEqual([]);
  });

  it('takes files along, shows those of everybody, and links to sources', async () => {
    const { simulator } = started.service;
    const attached = paintPng(160, 60, [200, 170, 40]);
    const sources = [{ url: 'https://example.com/a', title: 'A page' }];
    simulator.script('shows', [
      { text: 'I draw one, too.', toolCalls: [{ name: 'draw', input: { what: 'a box' } }] },
      { text: 'Here is a third.', pictures: [ofModel.toString('base64')], sources },
    ]);
    const { page, say, look, failures } = await openChat('shows');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).origin));
    await page.getByLabel('Attach files').setInputFiles([
      { name: 'box.png', mimeType: 'image/png', buffer: attached },
      { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('Boxes are fine.') },
      { name: 'wrong.txt', mimeType: 'text/plain', buffer: Buffer.from('Not this one.') },
    ]);
    await page.getByRole('button', { name: 'Remove wrong.txt' }).click();
    await page.getByRole('button', { name: 'Remove notes.txt' }).waitFor();
    await look('attached');
    await say('What is this?');
    const expectShown = async (): Promise<void> => {
      await page.getByText('Here is a third.').waitFor();
      await page.getByRole('link', { name: 'A page' }).waitFor();
      const images = page.locator('article img');
      await eventually(async () => (await images.count()) === 3, 'three pictures are shown');
      await eventually(
        () => images.evaluateAll((all) => all.every((image) => Object(image).naturalWidth === 160)),
        'they have come',
      );
      expect(await page.locator('article.user').allInnerTexts()).toEqual([expect.stringMatching(/What is this\?/)]);
      expect(await page.locator('article.user img').getAttribute('alt')).toBe('box.png');
      expect(await page.locator('.tool img').count()).toBe(1);
      expect(await page.getByRole('link', { name: 'A page' }).getAttribute('href')).toBe(sources[0]?.url);
    };
    await expectShown();
    await look('answered');
    await page.reload();
    await expectShown();
    const downloading = page.waitForEvent('download');
    await page.getByRole('link', { name: 'notes.txt' }).click();
    const download = await downloading;
    expect(download.suggestedFilename()).toBe('notes.txt');
    expect(await readFile(await download.path(), 'utf8')).toBe('Boxes are fine.');
    const [first] = simulator.requests.filter(({ model }) => model === 'shows');
    expect(first?.rawBody).toContain(attached.toString('base64'));
    expect(first?.rawBody).toContain('Boxes are fine.');
    expect(first?.rawBody).not.toContain('Not this one.');
    // Everything comes through the page's own backend, which has the key.
    expect(new Set(asked)).toEqual(new Set([new URL(page.url()).origin]));
    expect(failures).toEqual([]);
  });

  it('says what a prune has cleared', async () => {
    started.service.simulator.script('clears', readingReplies(14, 1_500));
    const { page, say, failures } = await openChat('clears');
    await say('Read all the files.');
    await page.getByText('All read.').waitFor();
    expect(await page.locator('.notice').innerText()).toMatch(/^Old tool outputs cleared: \d+, [\d,]+ tokens$/);
    expect(failures).toEqual([]);
  });

  it('says what a compaction made of the context', async () => {
    const { simulator } = started.service;
    simulator.setWindow('fills', WINDOW);
    simulator.script('fills', readingReplies(12, 1_500));
    const { page, say, look, failures } = await openChat('fills');
    await say('Read all the files.');
    await page.getByText('All read.').waitFor();
    expect(await page.locator('.notice').innerText()).toMatch(/^Context compressed: [\d,]+ → [\d,]+ tokens$/);
    await look('compressed');
    await page.reload();
    await page.getByText('All read.').waitFor();
    expect(await page.locator('.notice').innerText()).toMatch(/^Context compressed: [\d,]+ → [\d,]+ tokens$/);
    expect(failures).toEqual([]);
  });

  it('goes on by itself when the service comes back in mid-answer', async () => {
    const { simulator, deps } = started.service;
    const agents = createCatalogue([agentSchema.parse({ name: 'restarts', model: 'simulated/restarts' })]);
    const text = 'One two three four five six seven eight.';
    simulator.script('restarts', [{ text, chunkChars: 4, gates: { afterChunks: { count: 4, gate: 'restarts' } } }]);
    const before = await startApi({ ...deps, agents });
    const { page, say, answers, failures } = await openChat('restarts', before.url);
    await say('Count');
    await page.getByText('One two').waitFor();
    await before[Symbol.asyncDispose]();
    simulator.gate('restarts').release();
    const config = { ...deps.config, port: Number(new URL(before.url).port) };
    stack.use(await startApi({ ...deps, agents, config }));
    await page.getByText('eight.').waitFor();
    await page.getByRole('button', { name: 'Send' }).waitFor();
    await expect.poll(answers).toEqual([text]);
    await expect.poll(() => page.locator('.failure').count()).toBe(0);
    expect(failures).toEqual([]);
  });

  it('says that nothing answers, and goes on by itself when something does', async () => {
    const { simulator } = started.service;
    const text = 'One two three four five six seven eight.';
    simulator.script('breaks', [{ text, chunkChars: 4, gates: { afterChunks: { count: 4, gate: 'breaks' } } }]);
    const backend = await startChatPage({ batonUrl: started.url, agent: 'breaks' });
    const page = await context.newPage();
    await page.goto(backend.url);
    await say(page, 'Count');
    await page.getByText('One two').waitFor();
    await backend[Symbol.asyncDispose]();
    await page.getByText('The service does not answer at the moment.').waitFor();
    simulator.gate('breaks').release();
    stack.use(await startChatPage({ batonUrl: started.url, port: Number(new URL(backend.url).port) }));
    await page.getByText('eight.').waitFor();
    await expect.poll(() => page.locator('.failure').count()).toBe(0);
    expect(await page.locator('article.assistant .text').allInnerTexts()).toEqual([text]);
    await page.close();
  });

  it('takes the first agent of the service where it is given none', async () => {
    const { url } = stack.use(await startChatPage({ batonUrl: started.url }));
    const page = await context.newPage();
    await page.goto(url);
    await page.getByLabel('Message').waitFor();
    const id = new URL(page.url()).searchParams.get('chat');
    const session = await fetch(`${started.url}/v1/sessions/${id}`).then((response) => response.json());
    expect(session).toMatchObject({ id, agent: 'asks' });
    await page.close();
  });

  it('shows what another page of the chat asks, and the answer', async () => {
    const { simulator } = started.service;
    simulator.script('tabs', [{ text: 'The first.' }, { text: 'The second.' }]);
    const { page, say, answers, failures } = await openChat('tabs');
    await say('One');
    await page.getByText('The first.').waitFor();
    const other = await context.newPage();
    await other.goto(page.url());
    await other.getByText('The first.').waitFor();
    await say('Two');
    await other.getByText('The second.').waitFor();
    await expect
      .poll(() => other.locator('article').allInnerTexts())
      .toEqual(['One', 'The first.', 'Two', 'The second.']);
    expect(await answers()).toEqual(['The first.', 'The second.']);
    expect(failures).toEqual([]);
    await other.close();
  });

  it('keeps a failure in sight, also after a reload, and tries again', async () => {
    const { simulator } = started.service;
    simulator.script('fails', [{ text: 'Now it works.' }]);
    simulator.fault('fails', { status: 401 });
    const { page, say, answers, look, failures } = await openChat('fails');
    await say('Hi');
    await page.getByRole('button', { name: 'Retry' }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Retry' }).waitFor();
    await look('failed');
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.getByText('Now it works.').waitFor();
    await expect.poll(() => page.locator('.failure').count()).toBe(0);
    expect(await answers()).toEqual(['Now it works.']);
    expect(failures).toEqual([]);
  });

  it('takes several lines, shows Markdown without asking for its images, and begins a chat with another agent', async () => {
    const { simulator } = started.service;
    const text =
      'It is **bold**.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n![spy](https://example.com/spy.png)<script>1</script>';
    simulator.script('writes', [{ text }]);
    const { page, look, failures } = await openChat('writes');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).origin));
    const field = page.getByLabel('Message');
    await field.fill('One');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('Two');
    await page.keyboard.press('Enter');
    await page.locator('.text strong', { hasText: 'bold' }).waitFor();
    expect(await page.locator('article.user').innerText()).toBe('One\nTwo');
    expect(await page.locator('.text td').allInnerTexts()).toEqual(['1', '2']);
    expect(await page.locator('.text script').count()).toBe(0);
    await look('markdown');
    expect(new Set(asked)).toEqual(new Set([new URL(page.url()).origin]));
    const chat = page.url();
    await page.getByLabel('New chat').selectOption('fails');
    await page.waitForURL((url) => url.searchParams.has('chat') && url.href !== chat);
    const sessions = started.service.deps.db.selectFrom('sessions').select('agent_name');
    const newest = await sessions.orderBy('created_at', 'desc').limit(1).executeTakeFirst();
    expect(newest?.agent_name).toBe('fails');
    expect(failures).toEqual([]);
  });
});
