import { readlink, realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { systemErrorCode, WorkspaceError } from './workspace-error.ts';

export type WorkspacePath = Readonly<{
  /** The workspace root without symbolic links. */
  root: string;
  /** Absolute, every symbolic link followed; the last parts may not exist yet. */
  real: string;
  /** `real` relative to `root` with `/`, for the model. The root itself is `.`. */
  display: string;
}>;

/** As many as Linux follows in one path. */
const MAX_LINKS = 40;

/**
 * Resolves a path that a model gave, from the root if it is relative. Dangling links are followed by hand, so that no
 * file is created through them outside. The result may be outdated when it is used, so workspace-folder.ts checks
 * again.
 * @throws WorkspaceError `PATH_OUTSIDE_WORKSPACE`, `PATH_INVALID`; or a system error of the file system
 */
export async function resolveInWorkspace(root: string, path: string): Promise<WorkspacePath> {
  if (path.includes('\u0000')) throw new WorkspaceError('PATH_INVALID', 'A path must not contain a NUL character.');
  const realRoot = await realpath(root).catch((cause: unknown) => {
    throw new WorkspaceError('NOT_FOUND', 'The workspace root does not exist.', { cause });
  });
  const absolute = resolve(root, path);
  // Before the file system is asked: its answer about an outside path would reveal whether that exists.
  if (!isInside(resolve(root), absolute) && !isInside(realRoot, absolute)) throw outside(path);
  const real = await realPathOf(absolute);
  if (!isInside(realRoot, real)) throw outside(path);
  return { root: realRoot, real, display: relativeToRoot(realRoot, real) };
}

/** A path below `realRoot` as the model sees it: relative, with `/`. */
export function relativeToRoot(realRoot: string, real: string): string {
  return relative(realRoot, real).split(sep).join('/') || '.';
}

/** A path as one line of text; a JSON string if it has control characters, quotes or backslashes. */
export function displayPath(path: string): string {
  return /[\p{Cc}"\\]/u.test(path) ? JSON.stringify(path) : path;
}

/** Whether an absolute path is a folder or below it. Only the texts are compared. */
export function isInside(root: string, path: string): boolean {
  const way = relative(root, path);
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/**
 * An absolute path with every symbolic link followed. The last parts need not exist: a dangling link resolves to its
 * target's path.
 * @throws WorkspaceError `PATH_INVALID` after too many links; or a system error of the file system
 */
export function realPathOf(absolute: string): Promise<string> {
  return followLinks(absolute, { left: MAX_LINKS });
}

async function followLinks(path: string, links: { left: number }): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOENT' || dirname(path) === path) throw error;
  }
  const parent = await followLinks(dirname(path), links);
  const here = join(parent, basename(path));
  const target = await readlink(here).catch((error: unknown) => {
    const code = systemErrorCode(error);
    if (code === 'ENOENT' || code === 'EINVAL') return undefined;
    throw error;
  });
  if (target === undefined) return here;
  links.left -= 1;
  if (links.left < 0) throw new WorkspaceError('PATH_INVALID', 'The path has too many symbolic links.');
  return followLinks(resolve(parent, target), links);
}

function outside(path: string): WorkspaceError {
  return new WorkspaceError(
    'PATH_OUTSIDE_WORKSPACE',
    `${JSON.stringify(path)} is outside the workspace. Use a path relative to the workspace root.`,
  );
}
