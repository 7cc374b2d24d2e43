import { mkdtemp, realpath, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { writeSampleProject } from './sample-project.ts';

export type WorkspaceFolder = AsyncDisposable & Readonly<{ path: string; isSample: boolean }>;

/**
 * The folder that the agent works on: the given one, or a temporary sample project, which is removed at the end.
 * @returns null if the given path is no folder
 */
export async function openWorkspace(given: string | null): Promise<WorkspaceFolder | null> {
  if (given !== null) {
    const path = resolve(given);
    const found = await stat(path).catch(() => null);
    if (found?.isDirectory() !== true) return null;
    return { path, isSample: false, [Symbol.asyncDispose]: async () => undefined };
  }
  const path = await realpath(await mkdtemp(join(tmpdir(), 'baton-demo-')));
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 5 });
  try {
    await writeSampleProject(path);
  } catch (error) {
    await remove();
    throw error;
  }
  return { path, isSample: true, [Symbol.asyncDispose]: remove };
}
