import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { vi } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { startApi } from '../../src/app/api-server.ts';
import { openDependencies } from '../../src/app/dependencies.ts';
import { startJobWorker } from '../../src/app/job-worker.ts';
import { runCommandLine } from '../../src/cli/command-line.ts';
import { type BatonClient, createClient } from '../../src/client/client.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { createLog } from '../../src/platform/log.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

export type CaseFixture = AsyncDisposable &
  Readonly<{
    client: BatonClient;
    url: string;
    simulator: Awaited<ReturnType<typeof startSimulator>>;
    /** The folder of the agents and of the cases. */
    folder: string;
    write: (file: string, content: string) => Promise<string>;
    /** Runs `baton` in this process and returns its exit code and its output. */
    baton: (...args: readonly string[]) => Promise<Readonly<{ code: number; out: string; err: string }>>;
    /** `baton test` on an empty database of its own. */
    test: (...args: readonly string[]) => Promise<Readonly<{ code: number; out: string; err: string }>>;
  }>;

/** A service with agents in a folder. Tests record its sessions. */
export async function startCaseFixture(files: Readonly<Record<string, string>>): Promise<CaseFixture> {
  await using stack = new AsyncDisposableStack();
  const { path: parent } = stack.use(await temporaryFolder());
  const folder = path.join(parent, 'agents');
  await mkdir(folder);
  const write = async (file: string, content: string): Promise<string> => {
    await writeFile(path.join(folder, file), content);
    return path.join(folder, file);
  };
  for (const [file, content] of Object.entries(files)) await write(file, content);
  const database = stack.use(await createTestDatabase());
  const simulator = stack.use(await startSimulator());
  const environment = {
    BATON_AGENTS_DIR: folder,
    BATON_WORKSPACE_DIR: path.join(parent, 'workspace'),
    BATON_SIMULATOR_URL: simulator.url,
  };
  const own = { DATABASE_URL: database.connectionString, BATON_PORT: '0', BATON_QUEUE_PREFIX: path.basename(parent) };
  const deps = stack.use(
    await openDependencies(loadConfig({ ...environment, ...own }), {
      migrate: false,
      log: createLog({ level: 'silent' }),
    }),
  );
  const { url } = stack.use(await startApi(deps));
  stack.use(await startJobWorker(deps));
  const baton: CaseFixture['baton'] = async (...args) => {
    const said = { out: '', err: '' };
    const spies = (['stdout', 'stderr'] as const).map((name) =>
      vi.spyOn(process[name], 'write').mockImplementation((text) => {
        said[name === 'stdout' ? 'out' : 'err'] += String(text);
        return true;
      }),
    );
    try {
      const code = await runCommandLine(args, { BATON_URL: url, ...environment });
      return { code, ...said };
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  };
  const owned = stack.move();
  return {
    client: createClient({ baseUrl: url }),
    url,
    simulator,
    folder,
    write,
    baton,
    async test(...args) {
      await using empty = await createTestDatabase();
      return await baton('test', '--database', empty.connectionString, ...args);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
