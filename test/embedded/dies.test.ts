import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test, vi } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { clusterDirOf } from '../../src/embedded/cluster.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { eventually } from '../support/eventually.ts';
import { ROOT } from '../support/pasted.ts';
import { scratchDir } from './support.ts';

// A server that cannot come back is given up after 15 s.
vi.setConfig({ testTimeout: 120_000 });

type LogLine = Readonly<Record<string, unknown>>;

const dataDirIn = (folder: string): string => join(folder, 'data');

/** `npm start` on an embedded Postgres in this directory. */
async function startService(folder: string) {
  const child = spawn(process.execPath, [join(ROOT, 'src/cli/baton.ts'), 'dev'], {
    cwd: ROOT,
    env: childEnvironment({
      BATON_DATA_DIR: dataDirIn(folder),
      BATON_WORKSPACE_DIR: join(folder, 'workspace'),
      BATON_PORT: '0',
    }),
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const logged: LogLine[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => logged.push(JSON.parse(line) as LogLine));
  const of = (event: string) => logged.filter((line) => line['event'] === event);
  const [started] = await eventually(
    async () => (of('process_started').length > 0 ? of('process_started') : null),
    'it starts',
  );
  return {
    url: String(started?.['url']),
    of,
    exited,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
      await exited;
    },
  };
}

const postmasterPid = async (folder: string): Promise<number> =>
  Number((await readFile(join(clusterDirOf(dataDirIn(folder)), 'postmaster.pid'), 'utf8')).split('\n')[0]);

test('an embedded Postgres that is killed is started again, and the service works as before', async () => {
  await using dir = await scratchDir();
  await using service = await startService(dir.path);
  const client = createClient({ baseUrl: service.url });
  const session = await client.sessions.create({ agent: 'workspace' });
  const complete = async (text: string) => {
    const { runId } = await client.send(session.id, text);
    return eventually(async () => {
      const { status } = await client.runs.get(runId);
      return ['queued', 'running'].includes(status) ? null : status;
    }, `${text} ends`);
  };
  expect(await complete('First')).toBe('completed');

  const killed = await postmasterPid(dir.path);
  process.kill(killed, 'SIGKILL');
  await eventually(async () => service.of('embedded_postgres_restarted').length > 0, 'it is started again');
  expect(service.of('embedded_postgres_down')).toMatchObject([
    { level: 'error', error: { code: 'EMBEDDED_POSTGRES_ENDED', message: expect.stringContaining('SIGKILL') } },
  ]);
  expect(await postmasterPid(dir.path)).not.toBe(killed);
  await eventually(async () => (await fetch(`${service.url}/readyz`)).ok, 'it is ready');
  expect(await complete('Second')).toBe('completed');
  expect(service.of('process_failed')).toEqual([]);
});

test('a process whose embedded Postgres cannot come back ends with 1 and says why', async () => {
  await using dir = await scratchDir();
  await using service = await startService(dir.path);
  await writeFile(join(clusterDirOf(dataDirIn(dir.path)), 'postgresql.conf'), 'nonsense_setting = 1\n');
  process.kill(await postmasterPid(dir.path), 'SIGKILL');
  expect(await service.exited).toEqual([1, null]);
  const waits = service.of('embedded_postgres_down').map((line) => line['retryInMs']);
  expect(waits).toEqual(waits.toSorted((a, b) => Number(a) - Number(b)));
  expect(waits.length).toBeGreaterThan(2);
  expect(service.of('process_failed')).toMatchObject([
    {
      level: 'error',
      error: { code: 'EMBEDDED_POSTGRES_START_FAILED', message: expect.stringContaining('nonsense_setting') },
    },
  ]);
});
