import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, lstat, mkdir, open, readdir, rename, rmdir, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { systemErrorCode, WorkspaceError } from './workspace-error.ts';
import { openFolder, type WorkspaceFolder } from './workspace-folder.ts';
import type { WorkspacePath } from './workspace-path.ts';

type WriteLock = AsyncDisposable &
  Readonly<{
    /** An empty file, for the new content. */
    draft: FileHandle;
    /**
     * Moves the draft to the file's place.
     * @returns false, with the file unchanged, if another process took this one for dead and took its lock away
     */
    commit: () => Promise<boolean>;
  }>;

type LockTimes = Readonly<{ refreshMs: number; deadAfterMs: number; giveUpAfterMs: number }>;

/** A process refreshes its lock far more often than another may take it away. */
const TIMES: LockTimes = { refreshMs: 1_000, deadAfterMs: 15_000, giveUpAfterMs: 60_000 };
const POLL_MS = 5;
const MAX_POLL_MS = 50;
/** A lock has one draft. Other files in its folder are not Baton's to remove. */
const MAX_DRAFTS = 1;

type FilePath = Pick<WorkspacePath, 'root' | 'real'>;

/**
 * Waits for the lock to change a file among all processes that share the workspace. They may be in containers that
 * share nothing but these folders, so the lock is a folder beside the file, with the draft in it:
 * - A process takes the lock by moving a folder with a draft to the lock's name, which works only while no folder with
 *   a draft is there.
 * - Moving the draft out of the folder of that name changes the file and gives the lock back, in one operation.
 * - A process takes an unrefreshed lock away by moving its folder aside. If the lock's process is still alive, it has
 *   no draft under the name any more and can change nothing. No clocks are compared.
 * @param folder of the file, held open for longer than the lock
 * @throws WorkspaceError `FILE_BUSY` after a minute; the signal's reason; or a system error
 */
export async function takeWriteLock(
  folder: WorkspaceFolder,
  { root, real }: FilePath,
  signal: AbortSignal,
  times: LockTimes = TIMES,
): Promise<WriteLock> {
  const id = randomUUID();
  const own = folder.pathOf(temporaryName(id));
  const lock = folder.pathOf(lockName(basename(real)));
  await using cleanup = new AsyncDisposableStack();
  await mkdir(own);
  // If this lock was taken away, the lock's name may be another process's. That folder has a draft in it, so `rmdir`
  // leaves it.
  for (const path of [own, lock]) cleanup.defer(() => removeDraft(path, id));
  const held = cleanup.use(await openFolder({ root, real: join(dirname(real), temporaryName(id)) }));
  const draft = cleanup.use(await open(held.pathOf(id), 'wx'));
  const alive = setInterval(() => void showLife(held), times.refreshMs).unref();
  cleanup.defer(() => clearInterval(alive));
  await waitForLock(folder, { root, real }, { own, signal, times });
  const owned = cleanup.move();
  return {
    draft,
    commit: () => hasMoved(join(lock, id), folder.pathOf(basename(real)), 'ENOENT'),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function waitForLock(
  folder: WorkspaceFolder,
  file: FilePath,
  { own, signal, times }: Readonly<{ own: string; signal: AbortSignal; times: LockTimes }>,
): Promise<void> {
  const lock = folder.pathOf(lockName(basename(file.real)));
  const startedAtMs = performance.now();
  let last = { sign: '', atMs: startedAtMs };
  for (let waitMs = POLL_MS; !(await hasMoved(own, lock, 'ENOTEMPTY', 'EEXIST')); waitMs = nextWaitMs(waitMs)) {
    const nowMs = performance.now();
    if (nowMs - startedAtMs > times.giveUpAfterMs) throw busy(times.giveUpAfterMs);
    const sign = await signOfLife(lock);
    if (sign !== last.sign) last = { sign, atMs: nowMs };
    else if (nowMs - last.atMs > times.deadAfterMs) await takeAway(folder, file);
    await pause(waitMs, undefined, { signal });
  }
}

const nextWaitMs = (waitMs: number): number => Math.min(MAX_POLL_MS, waitMs * 2);

/** Changes with every refresh, and differs between locks. */
async function signOfLife(lock: string): Promise<string> {
  const stats = await lstat(lock, { bigint: true }).catch(() => undefined);
  return stats === undefined ? '' : `${stats.ino} ${stats.ctimeNs}`;
}

async function showLife({ handle }: WorkspaceFolder): Promise<void> {
  const now = new Date();
  await handle.utimes(now, now).catch(() => undefined);
}

async function takeAway(folder: WorkspaceFolder, { root, real }: FilePath): Promise<void> {
  const aside = temporaryName(randomUUID());
  if (!(await hasMoved(folder.pathOf(lockName(basename(real))), folder.pathOf(aside), 'ENOENT'))) return;
  await using abandoned = await openFolder({ root, real: join(dirname(real), aside) });
  for (const draft of (await readdir(abandoned.path)).slice(0, MAX_DRAFTS)) await removeFile(abandoned.pathOf(draft));
  await rmdir(folder.pathOf(aside)).catch(() => undefined);
}

/** The draft is in one of two folders, or has become the file. */
async function removeDraft(path: string, id: string): Promise<void> {
  await removeFile(join(path, id));
  await rmdir(path).catch(() => undefined);
}

async function removeFile(path: string): Promise<void> {
  await unlink(path).catch(() => undefined);
}

/** Renames a file. False: it failed for one of the given reasons. */
async function hasMoved(from: string, to: string, ...reasons: readonly string[]): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    if (reasons.includes(systemErrorCode(error) ?? '')) return false;
    throw error;
  }
}

const temporaryName = (id: string): string => `.write-${id}.tmp`;

/** A hash, because a file's name may be too long with a suffix. */
function lockName(name: string): string {
  return temporaryName(createHash('sha256').update(name).digest('hex').slice(0, 32));
}

function busy(waitedMs: number): WorkspaceError {
  return new WorkspaceError(
    'FILE_BUSY',
    `Others have been writing this file for ${waitedMs / 1_000} seconds. Try again later.`,
  );
}
