import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { packAll } from './packed.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const run = promisify(execFile);

/** The machine's own Node. As with a consumer, it may be older than the one that npm installs for the tests. */
export const CONSUMERS_NODE =
  (process.env['PATH'] ?? '')
    .split(path.delimiter)
    .filter((place) => !place.includes('node_modules'))
    .map((place) => path.join(place, 'node'))
    .find((file) => existsSync(file)) ?? process.execPath;

/** The oldest line of Node that the package supports. The file exists only where it is installed. */
export const NODE_22 = path.join(
  ROOT,
  `test/package/node-22/node_modules/node-${process.platform}-${process.arch}/bin/node`,
);

export const COMPILER = path.join(ROOT, 'node_modules/typescript/bin/tsc');

const lockSchema = z.object({
  packages: z.record(z.string(), z.object({ dev: z.boolean().optional() })),
});
const dependenciesSchema = z.object({ optionalDependencies: z.record(z.string(), z.string()) });

/** A folder whose `node_modules` has the packed Baton, what npm installs with it, and its optional peers. */
export type Consumer = AsyncDisposable &
  Readonly<{
    folder: string;
    /** The path of the packed file. */
    tarball: string;
    /** The paths of the files in the package. */
    files: readonly string[];
    /** The output of a program of the consumer, by the Node of this path. */
    runProgram: (name: string, text: string, node?: string, environment?: NodeJS.ProcessEnv) => Promise<string>;
    /** The same consumer without the optional peers. */
    withoutOptional: () => Promise<Consumer>;
  }>;

/**
 * Packs this repository, and installs it.
 * @param also further packages of the consumer, which this repository has, too
 */
export async function packForConsumer(also: readonly string[] = []): Promise<Consumer> {
  const { server, client } = await packAll();
  const folder = await mkdtemp(path.join(tmpdir(), 'baton-consumer-'));
  for (const [name, tarball] of [
    ['server', server],
    ['client', client],
  ] as const) {
    const home = path.join(folder, 'node_modules/@baton-run', name);
    await mkdir(home, { recursive: true });
    await run('tar', ['-xzf', tarball, '-C', home, '--strip-components=1']);
  }
  await linkDependencies(folder, { also });
  const home = path.join(folder, 'node_modules/@baton-run/server');
  const entries = await readdir(home, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(home, path.join(entry.parentPath, entry.name)));
  return consumerIn(folder, server, files);
}

async function consumerIn(folder: string, tarball: string, files: readonly string[]): Promise<Consumer> {
  await writeFile(path.join(folder, 'package.json'), '{"type": "module"}');
  return {
    folder,
    tarball,
    files,
    async runProgram(name, text, node = CONSUMERS_NODE, environment = process.env) {
      await writeFile(path.join(folder, name), text);
      return (await run(node, [name], { cwd: folder, env: environment })).stdout;
    },
    async withoutOptional() {
      const bare = await mkdtemp(path.join(tmpdir(), 'baton-consumer-'));
      await cp(path.join(folder, 'node_modules/@baton-run/server'), path.join(bare, 'node_modules/@baton-run/server'), {
        recursive: true,
      });
      const manifest = JSON.parse(await readFile(path.join(ROOT, 'package.json'), 'utf8'));
      await linkDependencies(bare, { without: Object.keys(dependenciesSchema.parse(manifest).optionalDependencies) });
      return consumerIn(bare, tarball, files);
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Links the packages that an install would bring, and the types of Node, which a program in TypeScript needs. */
async function linkDependencies(
  folder: string,
  { also = [], without = [] }: Readonly<{ also?: readonly string[]; without?: readonly string[] }>,
): Promise<void> {
  const { packages } = lockSchema.parse(JSON.parse(await readFile(path.join(ROOT, 'package-lock.json'), 'utf8')));
  for (const [place, { dev }] of Object.entries(packages)) {
    const isTop = /^node_modules\/(@[^/]+\/)?[^/]+$/.test(place);
    const named = ['@types/node', 'undici-types', ...also].map((name) => `node_modules/${name}`);
    const isNeeded = dev !== true || named.includes(place);
    if (!isTop || !isNeeded || !existsSync(path.join(ROOT, place))) continue;
    if (without.includes(place.replace('node_modules/', ''))) continue;
    await mkdir(path.dirname(path.join(folder, place)), { recursive: true });
    await symlink(path.join(ROOT, place), path.join(folder, place));
  }
}

/** The codes of what the compiler refuses in a program of the consumer, in the order of its lines. */
export async function complaints(
  folder: string,
  text: string,
  compiler: string,
  options: Readonly<Record<string, unknown>> = {},
): Promise<string[]> {
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
    ...options,
  };
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['consumer.ts'] }));
  const output = await run(process.execPath, [compiler, '--project', folder], { cwd: folder }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
  return Array.from(output.matchAll(/\bTS\d+/g), ([code]) => code);
}
