import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { createClient } from '../../src/client/client.ts';
import { defineAgent } from '../../src/library/baton.ts';
import { findChromium, startBrowser } from '../examples/browser.ts';
import { startInProcess } from '../library/support.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { type Consumer, packForConsumer } from '../package/consumer.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { eventually } from '../support/eventually.ts';
import { blocksOf, folderInside, takeBlocks } from '../support/pasted.ts';
import { openProgramPool } from '../support/postgres.ts';

// The test starts whole services, as a reader of the page would.
vi.setConfig({ testTimeout: 180_000 });

let consumer: Consumer;

// The programs run with the packages as npm packs them.
beforeAll(async () => {
  consumer = await packForConsumer(['express', 'fastify']);
}, 400_000);
afterAll(() => consumer[Symbol.asyncDispose]());

const PAGE = 'docs/library.md';
const BLOCKS = ['ts', 'ts', 'ts', 'ts', 'ts', 'ts', 'js', 'js', 'ts', 'ts', 'ts', 'js', 'ts'] as const;
const PAGE_BLOCK = 9;
const KEYS_BLOCK = 12;

type Part = 'create' | 'ask' | 'send' | 'begin' | 'mounts' | 'beside';

/**
 * A program made of blocks of the page. It reports each stage to its parent and waits for a word before the next one.
 */
const programOf = ({ create, ask, send, begin, mounts, beside }: Readonly<Record<Part, string>>): string => `${create}
const said = (word: string) => new Promise<void>((go) => process.on('message', (heard) => heard === word && go()));
process.send?.({ port: (server.address() as import('node:net').AddressInfo).port });
await said('ask');
${ask}
process.send?.({ text });
await said('send');
${send.replace("await client.query('commit');", "process.send?.({ runId });\nawait said('commit');\nawait client.query('commit');")}
process.send?.({ committed: true });
{
  const client = await pool.connect();
  await client.query('begin');
  ${begin}
  await client.query('commit');
  client.release();
  process.send?.({ begun: sent.sessionId });
}
await said('mount');
${mounts}
const mounted = app.listen(0, '127.0.0.1');
await new Promise((resolve) => mounted.once('listening', resolve));
const through = (at: () => unknown) => (request: Request) => {
  const url = new URL(request.url);
  url.port = String((at() as import('node:net').AddressInfo).port);
  return fetch(new Request(url, request));
};
await web.listen({ port: 0, host: '127.0.0.1' });
const ports = {
  hono: hono.fetch,
  next: answer,
  express: through(() => mounted.address()),
  fastify: through(() => web.server.address()),
};
const made: Record<string, unknown> = {};
for (const [name, answers] of Object.entries(ports)) {
  const headers = { 'x-user': 'ann', 'content-type': 'application/json' };
  const init = { method: 'POST', headers, body: JSON.stringify({ agent: 'clerk', title: name }) };
  const session = await (await answers(new Request('http://127.0.0.1/agent/v1/sessions', init))).json();
  const stranger = await answers(new Request('http://127.0.0.1/agent/v1/sessions'));
  made[name] = { title: session.title, stranger: stranger.status };
}
mounted.close();
web.server.closeAllConnections();
await web.close();
process.send?.({ made });
await said('beside');
${beside}
process.send?.({ besides: (await beside.client.sessions.list()).sessions.length });
await beside.stop();
`;

it('the program of docs/library.md answers, and a message and its row are both there or neither when it is killed', async () => {
  const [create, , ask, send, begin, hono, express, fastify, next, , beside] = await takeBlocks(PAGE, BLOCKS);
  await using simulator = await startSimulator();
  simulator.script('gpt-5.4', ({ index }) =>
    index % 2 === 0
      ? { toolCalls: [{ id: `r${index}`, name: 'refund', input: { order: 'order-7' } }] }
      : { text: 'Refunded.' },
  );
  await using database = await createEmptyDatabase();
  await using pool = openProgramPool({ connectionString: database.connectionString });
  await pool.query(
    'create table refunds (id text primary key, "order" text); create table orders (id text primary key)',
  );
  const file = path.join(consumer.folder, 'service.ts');
  await writeFile(file, programOf({ create, ask, send, begin, beside, mounts: `${hono}${express}${fastify}${next}` }));
  const start = () => {
    const child = spawn(process.execPath, [file], {
      cwd: consumer.folder,
      env: {
        ...childEnvironment({}),
        DATABASE_URL: database.connectionString,
        OPENAI_BASE_URL: `${simulator.url}/v1`,
        OPENAI_API_KEY: 'of the program',
        PORT: '0',
      },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const told: Record<string, unknown> = {};
    child.on('message', (words: object) => void Object.assign(told, words));
    const tells = (what: string) => eventually(async () => told[what] ?? null, `the program tells ${what}`);
    const kill = async (): Promise<void> => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    };
    return { child, tells, kill };
  };
  const rows = async (table: string) => (await pool.query(`select id from ${table}`)).rows;

  const first = start();
  const port = await first.tells('port');
  first.child.send('ask');
  expect(await first.tells('text')).toBe('Refunded.');
  expect(await rows('refunds')).toHaveLength(1);
  const refused = await fetch(`http://127.0.0.1:${port}/v1/sessions`);
  expect(refused.status).toBe(401);
  first.child.send('send');
  const lost = await first.tells('runId');
  await first.kill();
  expect(await rows('orders')).toEqual([]);

  const second = start();
  const client = createClient({
    baseUrl: `http://127.0.0.1:${await second.tells('port')}`,
    fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, 'x-user': 'ann' } }),
  });
  await expect(client.runs.get(String(lost))).rejects.toMatchObject({ code: 'not_found' });
  second.child.send('ask');
  await second.tells('text');
  second.child.send('send');
  const runId = String(await second.tells('runId'));
  second.child.send('commit');
  await second.tells('committed');
  expect(await client.runs.result(runId)).toMatchObject({ text: 'Refunded.' });
  expect(await rows('orders')).toEqual([{ id: 'order-7' }]);
  const begun = await second.tells('begun');
  expect(await client.sessions.get('key:order-7')).toMatchObject({ id: begun });
  second.child.send('mount');
  expect(await second.tells('made')).toEqual({
    hono: { title: 'hono', stranger: 401 },
    next: { title: 'next', stranger: 401 },
    express: { title: 'express', stranger: 401 },
    fastify: { title: 'fastify', stranger: 401 },
  });
  second.child.send('beside');
  expect(await second.tells('besides')).toBe(0);
  const ended = once(second.child, 'exit');
  second.child.disconnect();
  second.child.kill('SIGTERM');
  expect((await ended)[0]).toBe(0);
});

it('the program of docs/library.md plays the answers of its simulated model, and makes and revokes a key', async () => {
  const blocks = await takeBlocks(PAGE, BLOCKS);
  const [create, simulated, ask] = blocks;
  const keys = blocks[KEYS_BLOCK];
  const playing = create.replace("openai('gpt-5.4')", 'model');
  expect(playing).not.toBe(create);
  const program = `${simulated}${playing}${ask}${keys}
const [revoked] = await baton.keys.list();
console.log(text, key.length > 20, revoked?.name, revoked?.revokedAt !== null);
process.kill(process.pid, 'SIGTERM');
`;
  await using database = await createEmptyDatabase();
  await using pool = openProgramPool({ connectionString: database.connectionString });
  await pool.query('create table refunds (id text primary key, "order" text)');
  const environment = childEnvironment({ DATABASE_URL: database.connectionString, PORT: '0' });
  const printed = await consumer.runProgram('simulated.ts', program, process.execPath, environment);
  expect(printed).toBe('order-7 is paid back. true ann true\n');
  expect((await pool.query('select "order" from refunds')).rows).toEqual([{ order: 'order-7' }]);
});

it.each(['with a key', 'without a key'])(
  'the program of the README answers in its own process, and ends: %s',
  async (how) => {
    const program = (await blocksOf('README.md')).find(({ text }) => text.includes("from '@baton-run/server';"));
    await using simulator = await startSimulator();
    simulator.script('gpt-5.4', ({ index }) =>
      index === 0 ? { toolCalls: [{ id: 'r', name: 'refund', input: { order: 'order-7' } }] } : { text: 'Refunded.' },
    );
    await using database = await createEmptyDatabase();
    const keys = { OPENAI_BASE_URL: `${simulator.url}/v1`, OPENAI_API_KEY: 'of the program' };
    const environment = { DATABASE_URL: database.connectionString, ...(how === 'with a key' && keys) };
    const printed = await consumer.runProgram(
      'program.ts',
      program?.text ?? '',
      process.execPath,
      childEnvironment(environment),
    );
    expect(printed).toBe(how === 'with a key' ? 'Refunded.\n' : 'It is paid back.\n');
  },
);

const chromium = findChromium();

/** A page that shows the texts that the hook of docs/library.md has of a chat, and says hello once. */
const pageOf = (hook: string, apiUrl: string): string => `${hook.replace('https://api.example', apiUrl)}
import { createElement, useEffect } from 'react';
import { createRoot } from 'react-dom/client';

const { session, token } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
function Page() {
  const { messages, sendMessage, error } = useClerk(session, token);
  useEffect(() => void sendMessage({ text: 'Hello.' }), []);
  const said = messages.flatMap(({ parts }) => parts.filter(({ type }) => type === 'text').map(({ text }) => text));
  return createElement('p', null, error?.message ?? said.join(' '));
}
createRoot(document.body.appendChild(document.createElement('div'))).render(createElement(Page));
`;

it.runIf(chromium !== null)(
  'the hook of docs/library.md chats from a page of another origin with a token',
  async () => {
    const hook = (await takeBlocks(PAGE, BLOCKS))[PAGE_BLOCK];
    await using stack = new AsyncDisposableStack();
    await using folder = await folderInside();
    const [api, page] = [createServer(), createServer()];
    const originOf = async (server: Server): Promise<string> => {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      stack.defer(() => server.closeAllConnections());
      stack.defer(() => void server.close());
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    };
    const [apiUrl, pageUrl] = [await originOf(api), await originOf(page)];
    await using started = await startInProcess((model) => ({
      agents: [defineAgent({ name: 'clerk', model })],
      corsOrigins: [pageUrl],
      authenticate: () => null,
    }));
    const { baton, simulator } = started;
    simulator.script('test', () => ({ text: 'Here I am.' }));
    await baton.startWorker();
    api.on('request', baton.handler);
    const entry = path.join(folder.path, 'page.ts');
    await writeFile(entry, pageOf(hook, apiUrl));
    const { outputFiles } = await build({ entryPoints: [entry], bundle: true, write: false, platform: 'browser' });
    page.on('request', (_request, response) => {
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end(
        `<!doctype html><body><script type="module">${outputFiles[0]?.text.replaceAll('</script', '<\\/script')}</script>`,
      );
    });
    const { id } = await baton.client.sessions.create({ agent: 'clerk' });
    const { token } = await baton.client.sessions.createToken(id, { access: 'write' });
    await using browser = await startBrowser(chromium ?? '');
    const opened = await browser.context.newPage();
    await opened.goto(`${pageUrl}/#${new URLSearchParams({ session: id, token })}`);
    const shown = () => opened.textContent('p').catch(() => null);
    await expect.poll(shown).toBe('Hello. Here I am.');
  },
);
