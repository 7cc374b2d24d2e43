import { randomUUID } from 'node:crypto';
import { access, constants, lstat, open, rename, rm } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { systemErrorCode } from './workspace-error.ts';
import { makeFolder, notAFile } from './workspace-folder.ts';
import type { WorkspacePath } from './workspace-path.ts';

/**
 * Replaces or creates a file so that readers see the old or the new content and never a part; creates its parent
 * directories. An existing file keeps its permissions.
 *
 * @returns whether the file is new
 * @throws WorkspaceError `NOT_A_FILE`, `PATH_OUTSIDE_WORKSPACE`; the signal's reason, the file then being unchanged; or a system error
 */
export async function writeAtomically(path: WorkspacePath, content: Uint8Array, signal: AbortSignal): Promise<boolean> {
  const { root, real, shown } = path;
  if (real === root) throw notAFile(shown);
  await using folder = await makeFolder({ root, real: dirname(real) });
  const target = folder.pathOf(basename(real));
  const mode = await existingMode(target, shown);
  const temporary = folder.pathOf(`.write-${randomUUID()}.tmp`);
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(temporary, { force: true }));
  {
    await using handle = await open(temporary, 'wx');
    if (mode !== undefined) await handle.chmod(mode);
    await handle.writeFile(content, { signal });
    await handle.sync();
  }
  signal.throwIfAborted();
  await rename(temporary, target);
  return mode === undefined;
}

async function existingMode(target: string, shown: string): Promise<number | undefined> {
  try {
    // A link that has come since the path was resolved is no file either: a rename would replace it.
    const stats = await lstat(target);
    if (!stats.isFile()) throw notAFile(shown);
    // A rename asks only for permission on the directory: a read-only file would be replaced.
    await access(target, constants.W_OK);
    return stats.mode & 0o7777;
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
