import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
let folder: string;

const packed = z.array(z.object({ filename: z.string(), files: z.array(z.object({ path: z.string() })) })).length(1);
let files: readonly string[];

/** The machine's own Node, which may be older than the one that npm brings for the tests, as a consumer's may be. */
const CONSUMERS_NODE =
  (process.env['PATH'] ?? '')
    .split(path.delimiter)
    .filter((place) => !place.includes('node_modules'))
    .map((place) => path.join(place, 'node'))
    .find((file) => existsSync(file)) ?? process.execPath;

async function inConsumer(name: string, text: string, ...more: string[]): Promise<string> {
  await writeFile(path.join(folder, name), text);
  const { stdout } = await run(CONSUMERS_NODE, [...more, name], { cwd: folder });
  return stdout;
}

const COMPILER = path.join(ROOT, 'node_modules/typescript/bin/tsc');
const OLDEST_COMPILER = path.join(ROOT, 'test/package/oldest-typescript/node_modules/typescript/bin/tsc');

/** Options may be undefined, and the type of an event on a page tells its data. */
const CONSUMER = `
  import { type BatonClient, createClient, type Run } from 'baton/client';
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

/** What the compiler says of a program of the consumer. */
async function compile(text: string, compiler: string): Promise<string> {
  await writeFile(path.join(folder, 'consumer.ts'), text);
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
    module: 'nodenext',
    moduleResolution: 'nodenext',
    target: 'es2022',
    lib: ['es2022', 'dom'],
    types: [],
  };
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['consumer.ts'] }));
  return run(process.execPath, [compiler, '--project', folder], { cwd: folder }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
}

describe('the package that npm packs', () => {
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'baton-consumer-'));
    const { stdout } = await run('npm', ['pack', '--json', '--silent', '--pack-destination', folder], {
      cwd: ROOT,
      maxBuffer: 50_000_000,
    });
    const [pack] = packed.parse(JSON.parse(stdout.slice(stdout.indexOf('['))));
    files = pack?.files.map((file) => file.path) ?? [];
    const home = path.join(folder, 'node_modules/baton');
    await mkdir(home, { recursive: true });
    await run('tar', ['-xzf', path.join(folder, pack?.filename ?? ''), '-C', home, '--strip-components=1']);
    // What an install would bring along.
    await symlink(path.join(ROOT, 'node_modules/zod'), path.join(folder, 'node_modules/zod'));
    await writeFile(path.join(folder, 'package.json'), '{"type": "module"}');
  }, 240_000);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('has what a consumer runs, and neither sources nor tests', () => {
    const built = ['dist/src/client/client.js', 'dist/src/client/client.d.ts', 'dist/console/index.html'];
    for (const file of [...built, 'bin/baton.js', 'README.md']) {
      expect(files).toContain(file);
    }
    expect(files).toEqual(expect.arrayContaining([expect.stringMatching(/^dist\/console\/assets\/.+\.js$/)]));
    const functions = readdirSync(path.join(ROOT, 'src/store/sql')).map((file) => `dist/src/store/sql/${file}`);
    expect(files.filter((file) => file.endsWith('.sql'))).toEqual(functions.toSorted());
    expect(files.filter((file) => /^(src|test|bench|examples)\//.test(file))).toEqual([]);
  });

  it('is imported by plain JavaScript', async () => {
    const program = `
      import { BatonError, createClient } from 'baton/client';
      const client = createClient({ baseUrl: 'http://127.0.0.1:9', retries: 0 });
      const error = await client.agents().catch((thrown) => thrown);
      console.log(error instanceof BatonError, typeof client.sessions.create);`;
    expect(await inConsumer('client.mjs', program)).toBe('true function\n');
    const tool = `
      import { defineTool } from 'baton/tools';
      import { z } from 'zod';
      const tool = defineTool({ name: 'a', description: 'b', inputSchema: z.object({ c: z.string() }), execute: () => 'd' });
      console.log(tool.inputSchema.properties.c.type);`;
    expect(await inConsumer('tool.mjs', tool)).toBe('string\n');
  });

  it('has types that a strict consumer can check, and that refuse what is wrong', async () => {
    expect(await compile(CONSUMER, COMPILER)).toBe('');
    expect(await compile(CONSUMER.replace("'run_1'", '7'), COMPILER)).toContain('TS2345');
  });

  it('has types that the oldest TypeScript reads, with no library check left out', async ({ skip }) => {
    if (!existsSync(OLDEST_COMPILER)) skip('no TypeScript 5.0: npm ci --prefix test/package/oldest-typescript');
    expect(await compile(CONSUMER, OLDEST_COMPILER)).toBe('');
    expect(await compile(CONSUMER.replace("'run_1'", '7'), OLDEST_COMPILER)).toContain('TS2345');
  });

  it('has a command that runs', async () => {
    // A package that is installed has its dependencies beside it.
    await rm(path.join(folder, 'node_modules/zod'));
    await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules/baton/node_modules'));
    const { stdout } = await run(process.execPath, ['node_modules/baton/bin/baton.js', '--help'], { cwd: folder });
    expect(stdout).toContain('baton COMMAND');
  });
});
