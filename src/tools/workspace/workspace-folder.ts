import { constants, existsSync, type Stats } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { systemErrorCode, WorkspaceError } from './workspace-error.ts';
import { isInside, type WorkspacePath } from './workspace-path.ts';

/** Linux lists the open files of this process here, so that names can be looked up below an open folder. */
const OPEN_FILES = '/proc/self/fd';
const HAS_OPEN_FILES = existsSync(OPEN_FILES);

/**
 * A folder of the workspace that is held open. Other processes may rename files or replace them by links after a path
 * was checked, so names are looked up in this open folder instead of by its path.
 */
export type WorkspaceFolder = AsyncDisposable &
  Readonly<{
    handle: FileHandle;
    /** The folder itself, for calls that take a path. Valid as long as the folder is held open. */
    path: string;
    /** The path of an entry, for calls that follow no link at its end. `name` has no slash. */
    pathOf: (name: string) => string;
  }>;

/**
 * Opens a folder of the workspace by a resolved path, and checks the location of the opened folder. Without `/proc`
 * (macOS) a process that swaps folders and links at the right moments can evade the check.
 * @throws WorkspaceError `PATH_OUTSIDE_WORKSPACE` if the path now leads out of the workspace; or a system error
 */
export async function openFolder({ root, real }: Pick<WorkspacePath, 'root' | 'real'>): Promise<WorkspaceFolder> {
  const handle = await open(real, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    const place = await placeOf(handle, real);
    // Linux shows a folder that no path leads to any more as "(unreachable)/…".
    if (!isAbsolute(place) || !isInside(root, place)) throw movedAway();
  } catch (error) {
    await handle.close();
    throw error;
  }
  const path = HAS_OPEN_FILES ? join(OPEN_FILES, String(handle.fd)) : real;
  return {
    handle,
    path,
    pathOf: (name) => join(path, name),
    [Symbol.asyncDispose]: () => handle.close(),
  };
}

/** {@link openFolder}, but creates the folder and its missing parents. */
export async function makeFolder({ root, real }: Pick<WorkspacePath, 'root' | 'real'>): Promise<WorkspaceFolder> {
  try {
    return await openFolder({ root, real });
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOENT' || real === root) throw error;
  }
  {
    await using parent = await makeFolder({ root, real: dirname(real) });
    await mkdir(parent.pathOf(basename(real))).catch((error: unknown) => {
      if (systemErrorCode(error) !== 'EEXIST') throw error;
    });
  }
  return openFolder({ root, real });
}

/** The stats of a path of the workspace. @throws WorkspaceError as {@link openFolder}; or a system error */
export async function statInWorkspace({ root, real }: Pick<WorkspacePath, 'root' | 'real'>): Promise<Stats> {
  await using folder = await openFolder({ root, real: real === root ? root : dirname(real) });
  // The root is an open file here, which `/proc` shows as a link.
  return real === root ? await stat(folder.path) : await lstat(folder.pathOf(basename(real)));
}

/**
 * Opens an existing regular file for reading.
 * @throws WorkspaceError `NOT_A_FILE`, `PATH_OUTSIDE_WORKSPACE`; or a system error of the file system
 */
export async function openRegularFile({ root, real, display }: WorkspacePath): Promise<FileHandle> {
  if (real === root) throw notAFile(display);
  await using folder = await openFolder({ root, real: dirname(real) });
  const handle = await open(folder.pathOf(basename(real)), READ_FLAGS);
  try {
    if ((await handle.stat()).isFile()) return handle;
    throw notAFile(display);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * O_NONBLOCK: opening a named pipe would wait for a writer. O_NOFOLLOW: the last part of a path was no link when it was
 * resolved.
 */
export const READ_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

export function notAFile(display: string): WorkspaceError {
  return new WorkspaceError('NOT_A_FILE', `${JSON.stringify(display)} is a directory or special, not a file.`);
}

async function placeOf(handle: FileHandle, filePath: string): Promise<string> {
  if (HAS_OPEN_FILES) return readlink(join(OPEN_FILES, String(handle.fd)));
  const [place, { dev, ino }] = await Promise.all([realpath(filePath), handle.stat()]);
  const found = await lstat(place);
  if (found.dev !== dev || found.ino !== ino) throw movedAway();
  return place;
}

function movedAway(): WorkspaceError {
  return new WorkspaceError(
    'PATH_OUTSIDE_WORKSPACE',
    'The path was changed while it was used, and leads out of the workspace now. Look at it again with list_files.',
  );
}
