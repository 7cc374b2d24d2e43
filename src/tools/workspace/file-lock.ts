import { locks } from 'node:worker_threads';

/**
 * Runs `work` while no other write or edit of the same file runs in this process: parallel calls of one step may change
 * one file, and each must see the earlier changes. First come, first served, unlike the turns between processes
 * (write-turn.ts).
 * @param realPath absolute, without symbolic links
 * @throws the signal's reason if it is aborted while waiting
 */
export async function withFileLock<T>(realPath: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return locks.request(`workspace-file:${realPath}`, { signal }, work);
}
