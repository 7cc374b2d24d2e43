import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A folder of its own, removed with everything in it. */
export async function temporaryFolder(): Promise<AsyncDisposable & { path: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'baton-flow-'));
  return { path: folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}
