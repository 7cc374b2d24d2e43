import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A change of the product's source: a text that is there exactly once, and what takes its place. */
export type SourceChange = Readonly<{ file: string; find: string; replace: string }>;

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** The worker's entry point, within a copy and as it is. */
export const WORKER_FILE = 'test/faults/worker.ts';
export const WORKER = join(ROOT, WORKER_FILE);

const COPIED = [
  'src',
  'simulator',
  'workers',
  'migrations',
  'test/faults',
  'test/support',
  'package.json',
  'tsconfig.json',
];

/**
 * Copies the product into a folder, with changes: another version of it.
 * @returns its folder
 * @throws when a text to be changed is not there, or more than once
 */
export async function copyProduct(folder: string, changes: readonly SourceChange[]): Promise<string> {
  const copy = join(folder, 'product');
  await mkdir(join(copy, 'test'), { recursive: true });
  for (const name of COPIED) await cp(join(ROOT, name), join(copy, name), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  for (const change of changes) await applyChange(copy, change);
  return copy;
}

async function applyChange(copy: string, { file, find, replace }: SourceChange): Promise<void> {
  const path = join(copy, file);
  const text = await readFile(path, 'utf8');
  const times = text.split(find).length - 1;
  if (times !== 1) throw new Error(`${file} has ${times} times: ${find}`);
  await writeFile(
    path,
    text.replace(find, () => replace),
  );
}
