import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { openFolder, type WorkspaceFolder } from './workspace-folder.ts';
import type { WorkspacePath } from './workspace-path.ts';

export type WalkEntry = Readonly<{
  real: string;
  kind: 'directory' | 'file' | 'link' | 'other';
  /** Why a recursive walk left out the contents of this directory. */
  notEntered?: 'skipped' | 'unreadable';
}>;

type Folder = Pick<WorkspacePath, 'root' | 'real'>;

const SKIPPED_DIRECTORIES: ReadonlySet<string> = new Set(['.git', 'node_modules']);

/** Directories whose contents a walk leaves out, for descriptions. A walk that starts inside one does enter it. */
export const skippedDirectories = [...SKIPPED_DIRECTORIES].join(' and ');

/**
 * Yields the entries below a directory of the workspace, sorted by name (code units), each directory before its
 * contents. Follows no symbolic link, and holds no directory open, or deep ones would take all descriptors.
 * @throws a system error or WorkspaceError if the directory itself cannot be read; the signal's reason
 */
export async function* walk(
  { root, real: directory }: Folder,
  { recursive, signal }: Readonly<{ recursive: boolean; signal?: AbortSignal }>,
): AsyncGenerator<WalkEntry, void, undefined> {
  signal?.throwIfAborted();
  const found = await readFolder({ root, real: directory });
  found.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of found) {
    const real = join(directory, entry.name);
    if (entry.isDirectory()) yield* walkDirectory({ root, real }, { recursive, ...(signal && { signal }) });
    else if (entry.isSymbolicLink()) yield { real, kind: 'link' };
    else yield { real, kind: entry.isFile() ? 'file' : 'other' };
  }
}

async function readFolder(directory: Folder) {
  await using folder = await openFolder(directory);
  return await readdir(folder.path, { withFileTypes: true });
}

async function* walkDirectory(
  { root, real }: Folder,
  options: Readonly<{ recursive: boolean; signal?: AbortSignal }>,
): AsyncGenerator<WalkEntry, void, undefined> {
  if (!options.recursive) return yield { real, kind: 'directory' };
  if (SKIPPED_DIRECTORIES.has(basename(real))) return yield { real, kind: 'directory', notEntered: 'skipped' };
  const contents = walk({ root, real }, options);
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

/** Opens the folder of one file after the other, and keeps the last one open: most files share it. */
export type FolderCursor = AsyncDisposable & Readonly<{ folderOf: (real: string) => Promise<WorkspaceFolder> }>;

/** @param root the workspace root without symbolic links */
export function createFolderCursor(root: string): FolderCursor {
  let current: Readonly<{ real: string; folder: WorkspaceFolder }> | null = null;
  const close = async (): Promise<void> => {
    const last = current;
    current = null;
    await last?.folder[Symbol.asyncDispose]();
  };
  return {
    async folderOf(real) {
      const directory = dirname(real);
      if (current?.real === directory) return current.folder;
      await close();
      const folder = await openFolder({ root, real: directory });
      current = { real: directory, folder };
      return folder;
    },
    [Symbol.asyncDispose]: close,
  };
}
