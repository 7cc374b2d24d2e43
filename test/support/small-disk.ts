import { execFile } from 'node:child_process';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Room for an empty cluster, its write-ahead log and some minutes of a row's data. */
const SIZE_MB = 320;

/** A file system in memory that is soon full. */
export type SmallDisk = AsyncDisposable &
  Readonly<{
    path: string;
    /** Takes all the room that is left. */
    fill: () => void;
    /** Gives back what `fill` took. */
    makeRoom: () => void;
  }>;

/** Mounts it. @throws with the words of `mount` where that is not allowed */
export async function mountSmallDisk(): Promise<SmallDisk> {
  const path = await mkdtemp(join(tmpdir(), 'baton-disk-'));
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MB}m,mode=755`, 'baton-abuse', path]);
  } catch (error) {
    await rm(path, { recursive: true });
    throw error;
  }
  const filler = join(path, 'filler');
  return {
    path,
    fill: () => fill(filler),
    makeRoom: () => rmSync(filler),
    async [Symbol.asyncDispose]() {
      // Processes that have just ended may still hold files open; a lazy unmount waits for them.
      await run('umount', ['--lazy', path]);
      await rm(path, { recursive: true, force: true });
    },
  };
}

/** In pieces that become smaller, down to a page of Postgres. */
function fill(file: string): void {
  const descriptor = openSync(file, 'a');
  for (const bytes of [1_048_576, 65_536, 4_096]) writeUntilFull(descriptor, Buffer.alloc(bytes, 1));
  closeSync(descriptor);
}

function writeUntilFull(descriptor: number, piece: Buffer): void {
  try {
    while (writeSync(descriptor, piece) > 0);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
  }
}
