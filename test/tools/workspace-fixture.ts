import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { ToolContext } from '../../src/tools/tool.ts';
import type { WorkspaceLimits } from '../../src/tools/workspace/workspace-limits.ts';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';

export type Fixture = AsyncDisposable &
  Readonly<{
    /** The folder that holds the workspace, and files that must stay outside of it. */
    base: string;
    root: string;
    call: (name: string, input: unknown, signal?: AbortSignal) => Promise<string>;
    /** Writes a file into the workspace without the tools. */
    put: (path: string, content: string | Uint8Array) => Promise<void>;
  }>;

/** A workspace in a temporary directory of its own, with real tools. */
export async function createFixture(limits: Partial<WorkspaceLimits> = {}): Promise<Fixture> {
  const base = await realpath(await mkdtemp(join(tmpdir(), 'workspace-')));
  const root = join(base, 'root');
  await mkdir(root);
  const tools = createWorkspaceTools({ root, limits });
  return {
    base,
    root,
    call: async (name, input, signal = new AbortController().signal) => {
      const tool = tools.find((candidate) => candidate.name === name);
      if (tool === undefined) throw new Error(`no tool ${name}`);
      const result = await tool.execute(input, contextOf(signal));
      if (typeof result !== 'string') throw new Error(`${name} returned ${typeof result}`);
      return result;
    },
    put: async (path, content) => {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), content);
    },
    [Symbol.asyncDispose]: () => rm(base, { recursive: true, force: true }),
  };
}

export function contextOf(signal: AbortSignal): ToolContext {
  return { signal, callKey: 'msg_1:0', toolCallId: 'call_1', tenantId: 'acme', sessionId: 'ses_1', runId: 'run_1' };
}

/** Whether a process still runs. A zombie does not: it only waits until its parent reads its exit code. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  if (process.platform !== 'linux') return true;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
  } catch {
    return false;
  }
}
