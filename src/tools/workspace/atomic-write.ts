import type { BigIntStats } from 'node:fs';
import { access, constants, lstat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { systemErrorCode, WorkspaceError } from './workspace-error.ts';
import { makeFolder, notAFile } from './workspace-folder.ts';
import type { WorkspacePath } from './workspace-path.ts';
import { takeWriteLock } from './write-lock.ts';

/** Computes the new content of a file. No other process with these tools changes the file meanwhile. */
type Rewrite<T> = () => Promise<Readonly<{ bytes: Uint8Array; result: T }>>;

/** Builds, formatters and commands change files without taking a lock: this often a change is computed anew. */
const MAX_TRIES = 10;

/**
 * Replaces a file atomically, keeping its permissions, or creates it with its parent directories. Readers see the old
 * or the new content, and no write since the start of `rewrite` is lost: changes by other programs are detected up to
 * the rename.
 * @param rewrite called again if the file has changed meanwhile
 * @returns the result of `rewrite`, and whether the file is new
 * @throws WorkspaceError `NOT_A_FILE`, `PATH_OUTSIDE_WORKSPACE`, `FILE_BUSY`; errors of `rewrite`; the signal's reason,
 * with the file unchanged; or a system error
 */
export async function writeAtomically<T>(
  path: WorkspacePath,
  rewrite: Rewrite<T>,
  signal: AbortSignal,
): Promise<Readonly<{ result: T; isNew: boolean }>> {
  if (path.real === path.root) throw notAFile(path.display);
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const written = await tryToWrite(path, rewrite, signal);
    if (written !== null) return written;
  }
  throw new WorkspaceError(
    'FILE_BUSY',
    `${JSON.stringify(path.display)} was changed by others ${MAX_TRIES} times while it was to be written. Try again later.`,
  );
}

/** Null: the file has changed since `rewrite` began. */
async function tryToWrite<T>(path: WorkspacePath, rewrite: Rewrite<T>, signal: AbortSignal) {
  const { root, real, display } = path;
  await using folder = await makeFolder({ root, real: dirname(real) });
  const target = folder.pathOf(basename(real));
  await using lock = await takeWriteLock(folder, path, signal);
  const before = await statFile(target, display);
  const { bytes, result } = await rewrite();
  if (before !== undefined) await lock.draft.chmod(Number(before.mode) & 0o7777);
  await lock.draft.writeFile(bytes, { signal });
  await lock.draft.sync();
  signal.throwIfAborted();
  if (!isSame(before, await statFile(target, display))) return null;
  return (await lock.commit()) ? { result, isNew: before === undefined } : null;
}

async function statFile(target: string, display: string): Promise<BigIntStats | undefined> {
  try {
    // A link that was created since the path was resolved is no file: a rename would replace it.
    const stats = await lstat(target, { bigint: true });
    if (!stats.isFile()) throw notAFile(display);
    // A rename needs permission only on the directory, so a read-only file would be replaced.
    await access(target, constants.W_OK);
    return stats;
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** A write changes the ctime, which no program can set back; a replacement changes the inode. */
function isSame(before: BigIntStats | undefined, now: BigIntStats | undefined): boolean {
  if (before === undefined || now === undefined) return before === now;
  return before.ino === now.ino && before.size === now.size && before.ctimeNs === now.ctimeNs;
}
