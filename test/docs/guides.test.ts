import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { startSimulator } from '../../simulator/server.ts';
import { createClient } from '../../src/client/client.ts';
import { findChromium, startBrowser } from '../examples/browser.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { type Consumer, packForConsumer } from '../package/consumer.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { eventually } from '../support/eventually.ts';
import { folderInside, startPasted, startProgram, takeBlocks } from '../support/pasted.ts';
import { createTestDatabase } from '../support/postgres.ts';

// Each test starts whole services, as a reader of the guide would.
vi.setConfig({ testTimeout: 180_000 });

let consumer: Consumer;

// Programs run with the packages as npm packs them.
beforeAll(async () => {
  consumer = await packForConsumer(['express']);
}, 400_000);
afterAll(() => consumer[Symbol.asyncDispose]());

it('docs/guides/express.md: the program answers, waits for an approval, and goes on', async () => {
  const blocks = await takeBlocks('docs/guides/express.md', ['sh', 'js', 'sh', 'sh', 'sh', 'sh']);
  const [, program, start, ask, payBack, approve] = blocks;
  await using database = await createEmptyDatabase();
  const file = path.join(consumer.folder, 'server.mjs');
  await writeFile(file, program);
  const environment = {
    ...childEnvironment({}),
    DATABASE_URL: database.connectionString,
    PORT: '0',
  };
  const command = start.replace('server.mjs', file);
  await using app = await startProgram(command, environment, (line) => line);
  await using shell = await startPasted();
  const paste = async (block: string) =>
    JSON.parse(await shell.run(block.replace('localhost:3000', new URL(app.url).host)));
  expect(await paste(ask)).toMatchObject({ text: 'It was shipped on Monday.', status: 'completed' });
  const asked = await paste(payBack);
  expect(asked).toMatchObject({ status: 'requires_action', waitsFor: [{ kind: 'approval', toolName: 'refund' }] });
  const approved = approve.replace('$RUN', asked.run).replace('$CALL', asked.waitsFor[0].id);
  expect(await paste(approved)).toEqual({ text: 'It is paid back.' });
  const client = createClient({
    baseUrl: `${app.url}/agent`,
    fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, 'x-user': 'ann' } }),
  });
  const [session] = (await client.sessions.list()).sessions;
  expect(JSON.stringify(await client.messages(session?.id ?? ''))).toContain('paid order-7 back, as ');
  const through = (headers: Record<string, string>) => fetch(`${app.url}/agent/v1/sessions`, { headers });
  expect((await through({})).status).toBe(401);
  expect(await (await through({ 'x-user': 'ann' })).json()).toMatchObject({ sessions: [{ key: 'customer-17' }] });
});

const chromium = findChromium();

it.runIf(chromium !== null)(
  'docs/guides/nextjs.md: its page chats with the token of its route, asks for an approval, and shows it all after a reload',
  async () => {
    const [, start, , route, component] = await takeBlocks('docs/guides/nextjs.md', ['', 'sh', 'sh', 'ts', 'tsx']);
    await using stack = new AsyncDisposableStack();
    await using simulator = await startSimulator();
    simulator.script('*', [
      { text: 'One moment.', toolCalls: [{ name: 'bash', input: { command: 'echo it is done' } }] },
      { text: 'Done now.' },
    ]);
    const page = createServer();
    stack.defer(() => page.closeAllConnections());
    stack.defer(() => void page.close());
    page.listen(0, '127.0.0.1');
    await once(page, 'listening');
    const pageUrl = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;
    const [createKey = '', startService = ''] = start.trim().split('\n');
    expect(startService).toContain('BATON_CORS_ORIGINS=http://localhost:3000');
    await using database = await createTestDatabase();
    const environment = {
      DATABASE_URL: database.connectionString,
      BATON_SIMULATOR_URL: simulator.url,
      BATON_MODEL: 'simulated/page',
    };
    await using shell = await startPasted({ environment });
    const key = (await shell.run(`${createKey}; echo "$KEY"`)).trim();
    await using service = await startPasted({
      command: startService.replace('http://localhost:3000', pageUrl),
      environment,
    });

    await using folder = await folderInside();
    await writeFile(path.join(folder.path, 'route.ts'), route);
    await writeFile(path.join(folder.path, 'chat.tsx'), component);
    await writeFile(
      path.join(folder.path, 'page.tsx'),
      `import { createRoot } from 'react-dom/client';
import { ChatPage } from './chat.tsx';
createRoot(document.body.appendChild(document.createElement('div'))).render(<ChatPage />);
`,
    );
    const bundle = await build({
      entryPoints: [path.join(folder.path, 'page.tsx')],
      bundle: true,
      write: false,
      platform: 'browser',
      jsx: 'automatic',
      define: {
        'process.env.NEXT_PUBLIC_BATON_URL': JSON.stringify(service.url),
        'process.env.NODE_ENV': '"production"',
      },
    });
    await build({
      entryPoints: [path.join(folder.path, 'route.ts')],
      outfile: path.join(folder.path, 'route.mjs'),
      bundle: true,
      format: 'esm',
      platform: 'node',
      nodePaths: [path.join(consumer.folder, 'node_modules')],
      define: {
        'process.env.BATON_URL': JSON.stringify(service.url),
        'process.env.BATON_API_KEY': JSON.stringify(key),
      },
    });
    const { POST } = (await import(pathToFileURL(path.join(folder.path, 'route.mjs')).href)) as {
      POST: (request: Request) => Promise<Response>;
    };
    expect((await POST(new Request('http://page/api/chat-token', { method: 'POST' }))).status).toBe(401);
    page.on('request', async (request, response) => {
      if (request.url !== '/api/chat-token') {
        response.setHeader('content-type', 'text/html; charset=utf-8');
        const script = bundle.outputFiles[0]?.text.replaceAll('</script', '<\\/script');
        return void response.end(`<!doctype html><body><script type="module">${script}</script>`);
      }
      const answer = await POST(
        new Request('http://page/api/chat-token', { method: 'POST', headers: { 'x-user': 'ann' } }),
      );
      response.end(await answer.text());
    });

    await using browser = await startBrowser(chromium ?? '');
    const opened = await browser.context.newPage();
    const shown = () => opened.textContent('main').catch(() => null);
    await opened.goto(pageUrl);
    await opened.fill('[aria-label=Message]', 'Do it.');
    await opened.click('text=Send');
    await expect.poll(shown, { timeout: 30_000 }).toContain('bash {"command":"echo it is done"}');
    await opened.reload();
    await expect.poll(shown, { timeout: 30_000 }).toContain('One moment.');
    await opened.click('text=Approve');
    await expect.poll(shown, { timeout: 30_000 }).toContain('Done now.');
    await opened.reload();
    await expect.poll(shown, { timeout: 30_000 }).toMatch(/Do it\.One moment\.Done now\./);
  },
);

const IN_COMPOSE = 'docker compose run --rm api ';

it('docs/guides/team.md: its keys, its agent, its webhook and its schedule work as they are pasted', async () => {
  const blocks = await takeBlocks('docs/guides/team.md', ['', 'sh', 'yaml', 'js', 'yaml', 'sh', 'sh']);
  const [settings, keys, agent, program, override, tell, schedule] = blocks;
  expect(
    keys
      .trim()
      .split('\n')
      .every((line) => line.startsWith(IN_COMPOSE)),
  ).toBe(true);
  const { receiver } = parse(override).services;
  expect(receiver).toMatchObject({ command: ['node', '/receiver.mjs'], environment: ['WEBHOOK_SECRET'] });
  const [, allowed = ''] = /BATON_WEBHOOKS_ALLOWED_HOSTS=(\S+)/.exec(settings) ?? [];
  expect(tell).toContain(`http://${allowed}/`);
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

  await using folder = await folderInside();
  const file = path.join(folder.path, 'receiver.mjs');
  await writeFile(file, program);
  const heard: string[] = [];
  await using listening = await startProgram(
    `node ${file}`,
    { ...childEnvironment({}), WEBHOOK_SECRET: secret, PORT: '0' },
    (line) => {
      heard.push(line);
      return line;
    },
  );
  await using simulator = await startSimulator();
  simulator.script('*', () => ({ text: 'Nothing is open.' }));
  await using service = await startPasted({
    files: { 'agents/support.yaml': agent },
    environment: {
      BATON_AGENTS_DIR: 'FOLDER/agents',
      BATON_SIMULATOR_URL: simulator.url,
      BATON_MODEL: 'simulated/team',
      BATON_WEBHOOKS_ALLOWED_HOSTS: new URL(listening.url).host,
    },
  });
  const printed = await service.run(keys.replaceAll(IN_COMPOSE, ''));
  const [backend = '', anna = '', ops = ''] = printed.match(/^baton_\S+$/gm) ?? [];
  const paste = async (block: string) => {
    const text = block.replace('. ./.env\n', '').replaceAll(allowed, new URL(listening.url).host);
    return JSON.parse(await service.run(`KEY=${backend} WEBHOOK_SECRET=${secret}\n${text.trim().split('\n').at(0)}`));
  };
  expect(await paste(tell)).toMatchObject({ url: `${listening.url}/` });
  expect(await paste(schedule)).toMatchObject({ agent: 'support', cron: '0 9 * * 1-5' });

  const clientOf = (apiKey: string) => createClient({ baseUrl: service.url, apiKey });
  const client = clientOf(backend);
  const session = await client.sessions.create({ agent: 'support' });
  const { run } = await client.ask(session.id, 'What is open?');
  await eventually(async () => heard.includes(`run:completed ${run.id} Nothing is open.`), 'the receiver hears of it');
  const forged = createHmac('sha256', 'another').update('').digest('base64');
  const headers = {
    'webhook-id': 'x',
    'webhook-timestamp': `${Math.floor(Date.now() / 1000)}`,
    'webhook-signature': `v1,${forged}`,
  };
  expect((await fetch(listening.url, { method: 'POST', headers, body: '{}' })).status).toBe(401);
  expect((await clientOf(anna).audit()).entries.map(({ action }) => action)).toContain('webhook:create');
  const metrics = await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${ops}` } });
  expect(metrics.status).toBe(200);
  expect((await clientOf(ops).sessions.list()).sessions).toEqual([]);
});
