import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { expect, inject, test } from 'vitest';
import { checkStart } from '../../src/app/check-start.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { hasRedisServer, startOwnRedis } from '../faults/world/services.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const CLI = fileURLToPath(new URL('../../src/cli/baton.ts', import.meta.url));

const GOOD = 'name: good\nmodel: simulated/test\ntools: [workspace]\n';

/** Settings with these agents and a workspace that does not exist. */
async function settingsWith(agents: Readonly<Record<string, string>>) {
  const folder = await temporaryFolder();
  const agentsDir = path.join(folder.path, 'agents');
  await mkdir(agentsDir);
  for (const [file, content] of Object.entries(agents)) await writeFile(path.join(agentsDir, file), content);
  const workspace = path.join(folder.path, 'workspace');
  const environment: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    BATON_AGENTS_DIR: agentsDir,
    BATON_WORKSPACE_DIR: workspace,
    BATON_SIMULATOR_URL: 'http://127.0.0.1:9',
  };
  return { folder: folder.path, workspace, environment, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

async function findingsOf(environment: NodeJS.ProcessEnv, offline = false): Promise<string[]> {
  const findings = await Array.fromAsync(checkStart(environment, { offline }));
  return findings.map(({ level, what, message }) => `${level} ${what}: ${message}`);
}

test('a service that can start has nothing but what is well, and nothing is made or changed', async () => {
  await using database = await createTestDatabase();
  await using settings = await settingsWith({ 'good.yaml': GOOD });
  const found = await findingsOf({ ...settings.environment, DATABASE_URL: database.connectionString });
  expect(found).toEqual([
    'ok settings: are valid',
    `ok workspace: ${settings.workspace} is not there: a worker makes it when it starts`,
    'ok postgres: can be used, and is up to date',
    'ok redis: REDIS_URL is not set: queues are in Postgres',
    'ok agents: can be served: good',
  ]);
  expect(existsSync(settings.workspace)).toBe(false);
});

test('everything that is wrong is told at once, each by its setting or its file', async () => {
  await using settings = await settingsWith({ 'bad.yaml': `${GOOD}tols: []\n` });
  const stores = { DATABASE_URL: 'postgres://127.0.0.1:1/x', REDIS_URL: 'redis://127.0.0.1:1' };
  const wrong = { ...settings.environment, ...stores, BATON_WORKSPACE_DIR: path.join(settings.folder, 'agents') };
  expect(await findingsOf(wrong)).toEqual([
    'ok settings: are valid',
    expect.stringContaining('error workspace: BATON_WORKSPACE_DIR is '),
    expect.stringContaining('error postgres: DATABASE_URL: Postgres at 127.0.0.1:1 cannot be reached'),
    expect.stringContaining('error redis: REDIS_URL: Redis at 127.0.0.1:1 cannot be reached'),
    expect.stringMatching(/^error agents: .*bad\.yaml: \(root\): unknown key "tols" \(did you mean "tools"\?\)$/),
  ]);
  expect(await findingsOf({ ...wrong, BATON_PROT: '1' })).toEqual([
    'error settings: unknown settings: BATON_PROT (did you mean "BATON_PORT"?)',
  ]);
});

test('no agent’s mistake hides that of another one, whether its file cannot be read or it cannot be served', async () => {
  const unread = { 'a.yaml': 'name: [a\n', 'b.yml': `${GOOD}tols: []\n`, 'good.yaml': GOOD };
  await using files = await settingsWith(unread);
  expect((await findingsOf(files.environment, true)).slice(2)).toEqual([
    expect.stringMatching(/^error agents: .*a\.yaml: line 2, column 1: /),
    expect.stringMatching(/^error agents: .*b\.yml: \(root\): unknown key "tols"/),
  ]);
  const unserved = (name: string) => `name: ${name}\nmodel: simulated/test\ntools: [${name}-tools]\n`;
  await using agents = await settingsWith({ 'a.yaml': unserved('a'), 'b.yaml': unserved('b'), 'good.yaml': GOOD });
  expect((await findingsOf(agents.environment, true)).slice(2)).toEqual([
    expect.stringMatching(/^error agents: agent a: .*a-tools/),
    expect.stringMatching(/^error agents: agent b: .*b-tools/),
  ]);
});

test('what a start would warn of is a warning', async () => {
  await using settings = await settingsWith({
    'far.yaml': 'name: far\nmodel: openai/gpt-5.4\n',
    'new.yaml':
      'name: new\nmodel: simulated/test\ntools: [{ mcp: docs }, { mcp: own }, { mcp: there }, { mcp: here }]\n',
  });
  const servers = `mcpServers:
  docs: { command: no-such-server, args: [--stdio] }
  own: { command: ./own-server, cwd: ${settings.folder} }
  there: { command: node }
  here: { command: ./here-server, cwd: ${settings.folder} }
  unused: { command: no-such-server-either }
`;
  const mcpFile = path.join(settings.folder, 'mcp.yaml');
  const here = path.join(settings.folder, 'here-server');
  await Promise.all([writeFile(mcpFile, servers), writeFile(here, '')]);
  await chmod(here, 0o700);
  expect(await findingsOf({ ...settings.environment, BATON_MCP_FILE: mcpFile }, true)).toEqual([
    'ok settings: are valid',
    expect.stringMatching(/^ok workspace: /),
    'ok agents: can be served: far, new',
    'warning MCP server docs: its command no-such-server is not on this machine: sessions that need it are refused',
    'warning MCP server own: its command ./own-server is not on this machine: sessions that need it are refused',
    'warning agent far: no provider is configured for openai/gpt-5.4: its sessions are refused',
  ]);
});

test('a database that lacks migrations and functions is a warning, and stays as it is', async () => {
  await using settings = await settingsWith({ 'good.yaml': GOOD });
  const environment = { ...settings.environment, DATABASE_URL: inject('postgres').adminUrl };
  const lacking =
    /^warning postgres: can be used, and lacks (\d+) migrations and functions: run "npm run -s baton -- migrate"$/;
  expect(await findingsOf(environment)).toContainEqual(expect.stringMatching(lacking));
  const db = openDatabase({ connectionString: environment.DATABASE_URL });
  const { rows } = await sql`select to_regclass('kysely_migration') as name`.execute(db).finally(() => db.destroy());
  expect(rows).toEqual([{ name: null }]);
});

test('so is a Redis that drops jobs when it is full', async ({ skip }) => {
  skip(!hasRedisServer(), 'no redis-server on the PATH');
  await using redis = await startOwnRedis(['--maxmemory-policy', 'allkeys-lru']);
  await using settings = await settingsWith({});
  const found = await findingsOf({ ...settings.environment, REDIS_URL: `redis://127.0.0.1:${redis.port}` });
  expect(found).toContainEqual(
    expect.stringMatching(/^warning redis: .* is allkeys-lru; .* set maxmemory-policy noeviction$/),
  );
  expect(found.at(-1)).toMatch(/^warning agents: .*agents has no YAML file: no session can be created$/);
});

test('the command prints it, and its exit code says whether anything is wrong', async () => {
  await using settings = await settingsWith({ 'bad.yaml': 'name: [bad\n' });
  const check = (env: NodeJS.ProcessEnv) =>
    new Promise<readonly [number | null, string]>((resolve) => {
      const child = execFile(process.execPath, [CLI, 'check', '--offline'], { env }, (_error, stdout, stderr) =>
        resolve([child.exitCode, stdout + stderr]),
      );
    });
  const [code, said] = await check(settings.environment);
  expect(code).toBe(1);
  expect(said).toMatch(
    /^ok {7}settings: are valid\nok {7}workspace: .*\nerror {4}agents: .*bad\.yaml: line 2, column 1: /,
  );
});

test('a threshold that no compaction can reach is refused where the file alone shows it, and else warned of', async () => {
  const agent = (name: string, instructions: string, context: object) =>
    JSON.stringify({ name, model: 'simulated/test', instructions, context });
  const options = { thresholdPercent: 5 };
  const refused = agent('low', 'Be brief.', { maxContextTokens: 4_000, compaction: { options } });
  await using wrong = await settingsWith({ 'low.yaml': refused });
  expect((await findingsOf(wrong.environment, true)).slice(2)).toEqual([
    'error agents: agent low: context.compaction.options.thresholdPercent: 200 tokens are less than instructions and the shortest summary (401): raise it, or maxContextTokens',
  ]);
  const warned = agent('low', 'word '.repeat(60_000), { compaction: { options } });
  await using doubtful = await settingsWith({ 'low.yaml': warned });
  expect((await findingsOf(doubtful.environment, true)).slice(2)).toEqual([
    'ok agents: can be served: low',
    expect.stringMatching(
      /^warning agent low: its threshold of \d+ tokens is less than instructions and a summary \(\d+\) in the window of simulated\/test: raise/,
    ),
  ]);
});
