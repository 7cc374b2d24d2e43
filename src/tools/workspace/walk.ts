import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** Something found below a directory. */
export type WalkEntry = Readonly<{
  real: string;
  kind: 'directory' | 'file' | 'link' | 'other';
  /** Why the contents of a directory do not follow although the walk is recursive. */
  notEntered?: 'skipped' | 'unreadable';
}>;

const SKIPPED_DIRECTORIES: ReadonlySet<string> = new Set(['.git', 'node_modules']);

/** Directories whose contents a walk leaves out, for descriptions. A walk that starts inside of one does enter. */
export const skippedDirectories = [...SKIPPED_DIRECTORIES].join(' and ');

/**
 * Yields what is below `directory`, sorted by name (code units), each directory before its contents. Never
 * follows a symbolic link.
 *
 * @throws a system error if `directory` itself cannot be read; the signal's reason
 */
export async function* walk(
  directory: string,
  { recursive, signal }: Readonly<{ recursive: boolean; signal?: AbortSignal }>,
): AsyncGenerator<WalkEntry, void, undefined> {
  signal?.throwIfAborted();
  const found = await readdir(directory, { withFileTypes: true });
  found.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of found) {
    const real = join(directory, entry.name);
    if (entry.isDirectory()) yield* walkDirectory(real, { recursive, ...(signal && { signal }) });
    else if (entry.isSymbolicLink()) yield { real, kind: 'link' };
    else yield { real, kind: entry.isFile() ? 'file' : 'other' };
  }
}

async function* walkDirectory(
  real: string,
  options: Readonly<{ recursive: boolean; signal?: AbortSignal }>,
): AsyncGenerator<WalkEntry, void, undefined> {
  if (!options.recursive) return yield { real, kind: 'directory' };
  if (SKIPPED_DIRECTORIES.has(basename(real))) return yield { real, kind: 'directory', notEntered: 'skipped' };
  const contents = walk(real, options);
  const first = await contents.next().catch((error: unknown) => {
    options.signal?.throwIfAborted();
    return { error };
  });
  if ('error' in first) return yield { real, kind: 'directory', notEntered: 'unreadable' };
  yield { real, kind: 'directory' };
  if (first.done) return;
  yield first.value;
  yield* contents;
}
