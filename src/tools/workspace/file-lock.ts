/** The end of the last write of each file that has one under way or waiting. Never rejects. */
const ends = new Map<string, Promise<void>>();

/**
 * Runs `work` while no other write or edit of the same file runs in this process: parallel calls of one step may change
 * one file, and each must see the earlier changes. First come, first served, unlike the locks between processes
 * (write-lock.ts). Node's own locks are missing in Node 22.
 * @param realPath absolute, without symbolic links
 * @throws the signal's reason if it is aborted while waiting
 */
export async function withFileLock<T>(realPath: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const before = ends.get(realPath) ?? Promise.resolve();
  const { promise: done, resolve } = Promise.withResolvers<void>();
  // A call that gives up waiting must not let the next one pass those before it.
  const end = before.then(() => done);
  ends.set(realPath, end);
  void end.then(() => {
    if (ends.get(realPath) === end) ends.delete(realPath);
  });
  try {
    await untilAborted(before, signal);
    return await work();
  } finally {
    resolve();
  }
}

async function untilAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
