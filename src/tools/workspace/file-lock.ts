import { locks } from 'node:worker_threads';

/**
 * Runs `work` while no other write or edit of the same file runs in this process: parallel calls of one step may change
 * one file, and each must see what the other wrote. In order, where turns between processes (write-turn.ts) are not.
 *
 * @param realPath absolute, without symbolic links
 * @throws the signal's reason if it is aborted while waiting
 */
export async function withFileLock<T>(realPath: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return locks.request(`workspace-file:${realPath}`, { signal }, work);
}
