import { randomUUID } from 'node:crypto';
import { access, constants, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemErrorCode, WorkspaceError } from './workspace-error.ts';
import type { WorkspacePath } from './workspace-path.ts';

/**
 * Replaces or creates a file so that readers see the old or the new content and never a part; creates its parent
 * directories. An existing file keeps its permissions.
 *
 * @returns whether the file is new
 * @throws WorkspaceError `NOT_A_FILE`; the signal's reason, the file then being unchanged; or a system error
 */
export async function writeAtomically(path: WorkspacePath, content: Uint8Array, signal: AbortSignal): Promise<boolean> {
  const mode = await existingMode(path);
  const directory = dirname(path.real);
  await mkdir(directory, { recursive: true });
  const temporary = join(directory, `.write-${randomUUID()}.tmp`);
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(temporary, { force: true }));
  {
    await using handle = await open(temporary, 'wx');
    if (mode !== undefined) await handle.chmod(mode);
    await handle.writeFile(content, { signal });
    await handle.sync();
  }
  signal.throwIfAborted();
  await rename(temporary, path.real);
  return mode === undefined;
}

async function existingMode(path: WorkspacePath): Promise<number | undefined> {
  try {
    const stats = await stat(path.real);
    if (!stats.isFile()) {
      throw new WorkspaceError('NOT_A_FILE', `${JSON.stringify(path.shown)} is a directory or special, not a file.`);
    }
    // A rename asks only for permission on the directory: a read-only file would be replaced.
    await access(path.real, constants.W_OK);
    return stats.mode & 0o7777;
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
