import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { runInNewContext } from 'node:vm';
import { expect, it, vi } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { EXIT } from '../../src/cli/exit-codes.ts';
import { createClient } from '../../src/client/client.ts';
import { commandOf, ROOT, readPage, startPasted, takeBlocks } from '../support/pasted.ts';
import { clientProgram } from './client-program.ts';

// Each test starts whole services, as a reader of the page would.
vi.setConfig({ testTimeout: 180_000 });

const PAGE = 'docs/client.md';
const LANGUAGES = ['ts', 'js', 'ts', 'ts', 'ts', 'sh', ''] as const;

it('the client of docs/client.md follows a session, is refused by a code, and goes on from what it remembered', async () => {
  const [create, , , follow, refused] = await takeBlocks(PAGE, LANGUAGES);
  await using simulator = await startSimulator();
  simulator.script('*', [{ text: 'One after the other.', chunkChars: 4, gates: { beforeEnd: 'docs' } }]);
  await using service = await startPasted({
    environment: { BATON_SIMULATOR_URL: simulator.url, BATON_MODEL: 'simulated/docs' },
  });
  const { id } = await createClient({ baseUrl: service.url }).sessions.create({ agent: 'workspace' });
  const release = `await fetch('${simulator.url}/__simulator/release', { method: 'POST', body: '{"gate":"docs"}' });`;
  const program = clientProgram(create, follow, refused, `const sessionId = '${id}';`, release);
  const shown = await service.runProgram(PAGE, program);
  expect(JSON.parse(shown)).toEqual({
    answered: 'later',
    text: 'One after the other.',
    forgotten: 0,
    discarded: 0,
    after: expect.any(Number),
  });
});

it('the way of docs/client.md to read JSON keeps long numbers', async () => {
  const [, recipe] = await takeBlocks(PAGE, LANGUAGES);
  const given = { createClient: (options: object) => options, baseUrl: '' };
  const parseJson: (text: string) => unknown = runInNewContext(`${recipe}; client.parseJson`, given);
  const text = '{"long":12345678901234567890,"exact":1.10,"short":7}';
  expect(JSON.stringify(parseJson(text))).toBe(text);
});

it('the examples that docs/client.md names start as it says, and do what they are for', async () => {
  const [, , , , , review] = await takeBlocks(PAGE, LANGUAGES);
  await using simulator = await startSimulator();
  simulator.script('*', () => ({ text: 'Well written.' }));
  const environment = { BATON_SIMULATOR_URL: simulator.url, BATON_MODEL: 'simulated/docs' };
  await using service = await startPasted({ command: await commandOf(PAGE, 'npm start'), environment });
  await using backend = await service.startBeside(await commandOf(PAGE, 'npm run example:backend'));
  const asked = review.replace('localhost:4411', new URL(backend.url).host);
  expect(JSON.parse(await service.run(asked))).toEqual({ status: 'completed', answer: 'Well written.' });
  await using page = await service.startBeside(await commandOf(PAGE, 'npm run example:chat'));
  expect((await fetch(page.url)).status).toBe(200);
  const chat = await fetch(new URL('/chats', page.url), { method: 'POST' });
  expect(await chat.json()).toEqual({ id: expect.stringMatching(/^ses_[0-9a-f]{32}$/) });
});

it('the MCP example of docs/client.md uses its tool when its two commands are pasted', async () => {
  await using simulator = await startSimulator();
  simulator.script('*', [
    { toolCalls: [{ name: 'everything__get-sum', input: { a: 19, b: 23 } }] },
    { text: 'That makes 42.' },
  ]);
  const environment = { BATON_SIMULATOR_URL: simulator.url, BATON_MODEL: 'simulated/docs' };
  await using service = await startPasted({ command: await commandOf(PAGE, 'BATON_AGENTS_DIR='), environment });
  const told = await service.run(await commandOf(PAGE, 'npm run -s baton -- submit --follow --agent toolbox'));
  expect(told).toMatch(/everything__get-sum[\s\S]*That makes 42\.[\s\S]*completed after 2 steps/);
});

it('docs/client.md names every command of baton, options that they have, and how they end', async () => {
  const [, , , , , , synopsis] = await takeBlocks(PAGE, LANGUAGES);
  const lines = synopsis.trim().split('\n');
  const last = lines.pop() ?? '';
  const alone = last.replace(/\[[^\]]*\]/g, '').matchAll(/[a-z]+/g);
  const named = [...lines.map((line) => line.split(' ')[1] ?? ''), ...[...alone].map(([name]) => name).slice(1)];
  const files = await readdir(path.join(ROOT, 'src/cli/commands'));
  expect(named.toSorted()).toEqual(files.map((file) => file.replace('.ts', '')).toSorted());
  for (const line of lines) {
    const { usage } = (await import(`../../src/cli/commands/${line.split(' ')[1]}.ts`)) as { usage: string };
    const words = line.match(/--[a-z-]+|\b(?:edit|remove|clear|approve|deny|steer|followup|interrupt|reject)\b/g);
    for (const word of words ?? []) expect(usage, line).toContain(word);
  }
  const codes = [...(await readPage(PAGE)).matchAll(/^\| (\d+) \| /gm)].map(([, code]) => Number(code));
  expect(codes).toEqual([...Object.values(EXIT), 130]);
});
