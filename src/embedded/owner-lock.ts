import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedPostgresError } from './errors.ts';
import { shareOwner } from './share-owner.ts';

const SQLITE_BUSY = 5;
const OWNER_NAME_TIMEOUT_MS = 1_000;

/** Keeps locks of unreferenced servers from the garbage collector, which would close and so free them. */
const heldLocks = new Set<DatabaseSync>();

/**
 * Locks the data directory for this process by an empty SQLite database: Node has no file locks, and the kernel frees
 * SQLite's however the process dies. So a free lock proves that the last owner is gone; `owner.pid` only names the
 * owner in the error.
 * @throws EmbeddedPostgresError `EMBEDDED_POSTGRES_IN_USE` naming the pid of the owner, `EMBEDDED_POSTGRES_DATA_DIR` if
 * the lock file cannot be opened for writing
 */
export async function lockDataDir(dataDir: string): Promise<AsyncDisposable> {
  const lockPath = join(dataDir, 'owner.lock');
  const pidPath = join(dataDir, 'owner.pid');
  const held = await takeLock(lockPath);
  if (held === undefined) {
    const pid = await readOwner(pidPath);
    throw new EmbeddedPostgresError(
      'EMBEDDED_POSTGRES_IN_USE',
      `${dataDir} is in use by ${pid === undefined ? 'another process' : `process ${pid}`}. Stop it or choose another data directory.`,
    );
  }
  try {
    await writeFile(pidPath, `${process.pid}\n`);
    await shareOwner(lockPath, dataDir);
    await shareOwner(pidPath, dataDir);
  } catch (cause) {
    held.close();
    throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_DATA_DIR', `Cannot write ${pidPath}.`, { cause });
  }
  heldLocks.add(held);
  return {
    async [Symbol.asyncDispose]() {
      await writeFile(pidPath, '').catch(() => undefined);
      heldLocks.delete(held);
      held.close();
    },
  };
}

async function takeLock(lockPath: string): Promise<DatabaseSync | undefined> {
  // Node 22 prints a warning of its experimental SQLite, so a process without an embedded Postgres does not load it.
  const { DatabaseSync } = await import('node:sqlite');
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(lockPath, { timeout: 0 });
    // The journal stays in memory: a crash would leave a journal file beside the lock.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    return database;
  } catch (cause) {
    database?.close();
    if (cause instanceof Error && 'errcode' in cause && cause.errcode === SQLITE_BUSY) return undefined;
    throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_DATA_DIR', `Cannot lock ${lockPath}.`, { cause });
  }
}

/** Waits for the owner's pid: right after it locks, the file is missing or still names a dead predecessor. */
async function readOwner(pidPath: string): Promise<number | undefined> {
  const deadline = Date.now() + OWNER_NAME_TIMEOUT_MS;
  do {
    const pid = Number.parseInt(await readFile(pidPath, 'utf8').catch(() => ''), 10);
    if (pid > 0 && isAlive(pid)) return pid;
    await sleep(20);
  } while (Date.now() < deadline);
  return undefined;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
