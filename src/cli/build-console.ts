import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { CONSOLE_FOLDER, ROOT_FOLDER } from '../platform/root-folder.ts';

const SOURCES = path.join(ROOT_FOLDER, 'console');

/** Stands beside the built files: the hash of the sources that they were made of. */
const STAMP = 'built-of.txt';

/**
 * Builds the console of a clone where that is missing or older than its sources, which takes some seconds. A package
 * and the image have it built, and not its sources.
 * @returns whether it was built
 */
export async function buildConsole(): Promise<boolean> {
  if (!existsSync(SOURCES)) return false;
  const sources = await hashSources();
  const built = await readFile(path.join(CONSOLE_FOLDER, STAMP), 'utf8').catch(() => null);
  if (built === sources) return false;
  const { build } = await import('vite');
  await mkdir(path.dirname(CONSOLE_FOLDER), { recursive: true });
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(path.join(path.dirname(CONSOLE_FOLDER), 'console-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const newFolder = path.join(folder, 'new');
  await build({ configFile: path.join(SOURCES, 'vite.config.ts'), logLevel: 'error', build: { outDir: newFolder } });
  await writeFile(path.join(newFolder, STAMP), sources);
  // A process that built at the same time may have put the same files there in between.
  await rename(CONSOLE_FOLDER, path.join(folder, 'old')).catch(() => undefined);
  await rename(newFolder, CONSOLE_FOLDER).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
  });
  return true;
}

async function hashSources(): Promise<string> {
  const hash = createHash('sha256');
  for (const folder of [SOURCES, path.join(ROOT_FOLDER, 'src/client')]) {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
    for (const file of files.toSorted()) {
      hash.update(path.relative(ROOT_FOLDER, file)).update('\0');
      hash.update(await readFile(file)).update('\0');
    }
  }
  return hash.digest('hex');
}

if (import.meta.main) await buildConsole();
