import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { availableBackends } from '../support/backends.ts';
import { expectConsole } from '../support/console-served.ts';
import { startTestService } from '../support/service.ts';
import { ROOT, readComposeFile } from './compose-file.ts';
import { type Instruction, makeImageFolder, readFinalStage } from './image-files.ts';
import { expectApiPage, expectWorkingRun, WORKSPACE_FILE } from './play-run.ts';
import { runNode } from './process.ts';
import { onReadOnlyRoot } from './read-only-root.ts';

const stack = new AsyncDisposableStack();
let app: string;
let workspace: string;
let stage: readonly Instruction[];

beforeAll(async () => {
  app = await mkdtemp(path.join(tmpdir(), 'baton-image-'));
  stack.defer(() => rm(app, { recursive: true, force: true }));
  workspace = await mkdtemp(path.join(tmpdir(), 'baton-workspace-'));
  stack.defer(() => rm(workspace, { recursive: true, force: true }));
  await writeFile(path.join(workspace, WORKSPACE_FILE.name), WORKSPACE_FILE.content);
  stage = await readFinalStage(ROOT);
  await makeImageFolder(ROOT, app);
});

afterAll(() => stack.disposeAsync());

const argsOf = (name: string): string | undefined => stage.findLast((instruction) => instruction.name === name)?.args;

/** The arguments of `node` in an instruction that ends with a command in JSON. */
function nodeArgs(instruction: string): string[] {
  const [, json] = /(?:CMD )?(\[.*\])$/.exec(argsOf(instruction) ?? '') ?? [];
  const [program, ...args] = z.array(z.string()).parse(JSON.parse(json ?? '[]'));
  expect(program).toBe('node');
  return args;
}

describe('the image', () => {
  it('is made in several stages, ends as another user than root and has the version of Node that is tested', async () => {
    const text = await readFile(path.join(ROOT, 'Dockerfile'), 'utf8');
    const bases = Array.from(text.matchAll(/^FROM (\S+)/gm), ([, base]) => base);
    expect(bases.length).toBeGreaterThan(1);
    const [major, minor] = process.versions.node.split('.');
    expect(new Set(bases)).toEqual(new Set([`node:${major}.${minor}-slim`]));
    expect(argsOf('USER')).toBe('node');
    expect(text).toMatch(/npm ci .*--omit=dev .*--ignore-scripts/);
  });

  it('has the file of every command that Compose runs in it', async () => {
    const commands = Object.values(readComposeFile().services).flatMap(({ build, command }) =>
      build === undefined ? [] : [command ?? []],
    );
    expect(commands).toHaveLength(6);
    for (const [program, file = ''] of commands) {
      expect(program).toBe('node');
      await access(path.join(app, file));
    }
  });

  it('holds neither tests nor the simulator nor development dependencies', async () => {
    for (const left of [
      'test',
      'simulator',
      'eval',
      'src/cli/commands/dev.ts',
      'src/cli/demo',
      'node_modules/vitest',
      '.git',
    ]) {
      await expect(access(path.join(app, left)), left).rejects.toMatchObject({ code: 'ENOENT' });
    }
  });

  it('says so when it is asked for a command of development', async () => {
    await using dev = runNode(['src/cli/baton.ts', 'dev'], { cwd: app });
    expect(await dev.ended).toMatchObject({
      code: 2,
      output: expect.stringMatching(/^This installation has no command dev/),
    });
  });

  it('migrates an empty database', async () => {
    await using empty = await createEmptyDatabase();
    await using migrate = runNode(['src/cli/baton.ts', 'migrate'], {
      cwd: app,
      environment: { DATABASE_URL: empty.connectionString },
    });
    expect(await migrate.ended).toMatchObject({ code: 0, output: expect.stringContaining('Applied: ') });
  });

  it.each(availableBackends())(
    'runs API and steps on %s: healthy while the API runs, and both end in order',
    async (backend) => {
      await using service = await startTestService({ backend });
      const environment = { ...service.environment, BATON_PORT: '0', BATON_WORKSPACE_DIR: workspace };
      await using api = runNode(nodeArgs('CMD'), { cwd: app, environment });
      await using steps = runNode(['workers/steps.ts'], { cwd: app, environment });
      const { port } = new URL(String((await api.logged('process_started'))['url']));
      const checkHealth = async (): Promise<number | null> => {
        await using check = runNode(nodeArgs('HEALTHCHECK'), { cwd: app, environment: { BATON_PORT: port } });
        return (await check.ended).code;
      };
      await steps.logged('process_started');
      expect(await checkHealth()).toBe(0);
      await expectConsole(`http://127.0.0.1:${port}`);
      await expectApiPage(`http://127.0.0.1:${port}`);
      await expectWorkingRun(service, WORKSPACE_FILE.name);
      expect(await steps.stop()).toMatchObject({ code: 0 });
      expect(await api.stop()).toMatchObject({ code: 0 });
      expect(await checkHealth()).toBe(1);
    },
  );

  it('works where nothing but the workspace can be written to', async ({ skip }) => {
    const prefix = onReadOnlyRoot(workspace, app);
    if (prefix === null) return skip('no read-only mounts for this account');
    await using service = await startTestService({ backend: 'postgres' });
    const environment = { ...service.environment, BATON_PORT: '0', BATON_WORKSPACE_DIR: workspace };
    await using api = runNode(nodeArgs('CMD'), { cwd: app, environment, prefix });
    await using steps = runNode(['workers/steps.ts'], { cwd: app, environment, prefix });
    const { url } = await api.logged('process_started');
    await steps.logged('process_started');
    await expectConsole(String(url));
    await expectWorkingRun(service, WORKSPACE_FILE.name);
    expect(await steps.stop()).toMatchObject({ code: 0 });
    expect(await api.stop()).toMatchObject({ code: 0 });
  });
});
