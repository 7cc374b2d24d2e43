import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { expect, it, vi } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { createClient } from '../../src/client/client.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { eventually } from '../support/eventually.ts';
import { blocksOf, folderInside, takeBlocks } from '../support/pasted.ts';
import { createTestDatabase } from '../support/postgres.ts';

// The test starts whole services, as a reader of the page would.
vi.setConfig({ testTimeout: 180_000 });

const PAGE = 'docs/library.md';

/** A program of four blocks of the page. It tells its parent how far it is, and waits for a word before the commit. */
const programOf = (create: string, ask: string, send: string, beside: string): string => `${create}
const said = (word: string) => new Promise<void>((go) => process.on('message', (heard) => heard === word && go()));
process.send?.({ port: (server.address() as import('node:net').AddressInfo).port });
await said('ask');
${ask}
process.send?.({ text });
await said('send');
${send.replace("await client.query('commit');", "process.send?.({ runId });\nawait said('commit');\nawait client.query('commit');")}
process.send?.({ committed: true });
await said('beside');
${beside}
process.send?.({ besides: (await beside.client.sessions.list()).sessions.length });
await beside.stop();
`;

it('the program of docs/library.md answers, and a message and its row are both there or neither when it is killed', async () => {
  const [create, ask, send, beside] = await takeBlocks(PAGE, ['ts', 'ts', 'ts', 'ts']);
  await using simulator = await startSimulator();
  simulator.script('gpt-5.4', ({ index }) =>
    index % 2 === 0
      ? { toolCalls: [{ id: `r${index}`, name: 'refund', input: { order: 'order-7' } }] }
      : { text: 'Refunded.' },
  );
  await using database = await createTestDatabase();
  const pool = new pg.Pool({ connectionString: database.connectionString });
  await pool.query(
    'create table refunds (id text primary key, "order" text); create table orders (id text primary key)',
  );
  await using folder = await folderInside();
  const file = path.join(folder.path, 'service.ts');
  await writeFile(file, programOf(create, ask, send, beside));
  const start = () => {
    const child = spawn(process.execPath, ['--conditions=baton-source', file], {
      cwd: folder.path,
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
  second.child.send('beside');
  expect(await second.tells('besides')).toBe(0);
  const ended = once(second.child, 'exit');
  second.child.disconnect();
  second.child.kill('SIGTERM');
  expect((await ended)[0]).toBe(0);
  await pool.end();
});

it('the program of the README answers in its own process, and ends', async () => {
  const program = (await blocksOf('README.md')).find(({ text }) => text.includes("from 'baton';"));
  await using simulator = await startSimulator();
  simulator.script('gpt-5.4', ({ index }) =>
    index === 0 ? { toolCalls: [{ id: 'r', name: 'refund', input: { order: 'order-7' } }] } : { text: 'Refunded.' },
  );
  await using database = await createTestDatabase();
  await using folder = await folderInside();
  const file = path.join(folder.path, 'program.ts');
  await writeFile(file, program?.text ?? '');
  const environment = {
    DATABASE_URL: database.connectionString,
    OPENAI_BASE_URL: `${simulator.url}/v1`,
    OPENAI_API_KEY: 'of the program',
  };
  const { stdout } = await promisify(execFile)(process.execPath, ['--conditions=baton-source', file], {
    env: childEnvironment(environment),
  });
  expect(stdout).toBe('Refunded.\n');
});
