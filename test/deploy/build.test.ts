import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dumpSchema } from '../migrations/dump-schema.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { ROOT } from './compose-file.ts';
import { expectWorkingRun, WORKSPACE_FILE } from './play-run.ts';
import { runNode } from './process.ts';

const stack = new AsyncDisposableStack();
/** A copy of the package: the build's output, the manifest, the agents and the dependencies. */
let folder: string;

/** Sources that the build reads and the package leaves out. */
const SOURCES = ['src', 'simulator', 'workers', 'migrations', 'tsconfig.json', 'tsconfig.build.json'];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'baton-build-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  for (const name of [...SOURCES, 'package.json', 'agents']) {
    await cp(path.join(ROOT, name), path.join(folder, name), { recursive: true });
  }
  await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  await promisify(execFile)('npm', ['run', 'build'], { cwd: folder });
  for (const name of SOURCES) await rm(path.join(folder, name), { recursive: true });
  await mkdir(path.join(folder, 'workspace'));
  await writeFile(path.join(folder, 'workspace', WORKSPACE_FILE.name), WORKSPACE_FILE.content);
}, 120_000);

afterAll(() => stack.disposeAsync());

describe('the build', () => {
  it('migrates an empty database to the same schema and names as the sources do', async () => {
    await using built = await createEmptyDatabase();
    await using sources = await createEmptyDatabase();
    for (const [file, cwd, { connectionString }] of [
      ['dist/src/cli/baton.js', folder, built],
      ['src/cli/baton.ts', ROOT, sources],
    ] as const) {
      await using migrate = runNode([file, 'migrate'], { cwd, environment: { DATABASE_URL: connectionString } });
      expect(await migrate.ended).toMatchObject({ code: 0, output: expect.stringContaining('Applied: ') });
    }
    expect(await dumpSchema(built.connectionString)).toBe(await dumpSchema(sources.connectionString));
    await using again = runNode(['dist/src/cli/baton.js', 'migrate'], {
      cwd: folder,
      environment: { DATABASE_URL: sources.connectionString },
    });
    expect(await again.ended).toEqual({ code: 0, output: 'The database is up to date.\n' });
  });

  it.each(availableBackends())('works on a run on %s and ends in order on SIGTERM', async (backend) => {
    await using service = await startTestService({ backend });
    const environment = { ...service.environment, BATON_PORT: '0', BATON_WORKSPACE_DIR: 'workspace' };
    await using all = runNode(['dist/workers/all.js'], { cwd: folder, environment });
    const { url } = await all.logged('process_started');
    // Not at once on a slow machine, where the start keeps the event loop busy.
    await eventually(async () => (await fetch(`${url}/readyz`)).status === 200, 'the service is ready');
    await expectWorkingRun(service, WORKSPACE_FILE.name);
    expect(await all.stop()).toMatchObject({ code: 0 });
  });
});
