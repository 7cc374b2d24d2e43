import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
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
    for (const file of ['dist/src/client/client.js', 'dist/src/client/client.d.ts', 'bin/baton.js', 'README.md']) {
      expect(files).toContain(file);
    }
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
    const good = `
      import { type BatonClient, createClient, type Run } from 'baton/client';
      const client: BatonClient = createClient({ baseUrl: 'http://127.0.0.1:9' });
      export const run: Promise<Run> = client.runs.get('run_1');`;
    const check = async (text: string): Promise<string> => {
      await writeFile(path.join(folder, 'consumer.ts'), text);
      const options = [
        '--strict',
        '--noEmit',
        '--module',
        'nodenext',
        '--target',
        'es2022',
        '--lib',
        'es2024,dom,esnext',
      ];
      const tsc = path.join(ROOT, 'node_modules/.bin/tsc');
      return run(tsc, [...options, '--types', '', 'consumer.ts'], { cwd: folder }).then(
        ({ stdout }) => stdout,
        (error: { stdout: string }) => error.stdout,
      );
    };
    expect(await check(good)).toBe('');
    expect(await check(good.replace("'run_1'", '7'))).toContain('TS2345');
  });

  it('has a command that runs', async () => {
    // A package that is installed has its dependencies beside it.
    await rm(path.join(folder, 'node_modules/zod'));
    await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules/baton/node_modules'));
    const { stdout } = await run(process.execPath, ['node_modules/baton/bin/baton.js', '--help'], { cwd: folder });
    expect(stdout).toContain('baton COMMAND');
  });
});
