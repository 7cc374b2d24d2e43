import { readFile } from 'node:fs/promises';
import { type Child, startChild } from '../../faults/world/child.ts';

/** The processes of a product. */
export type Processes = AsyncDisposable &
  Readonly<{
    /** Starts a process; each role is used once. @throws if it ends before it has started */
    start: (process: ProcessOptions) => Promise<Child>;
    /** Processes that ended by themselves, with their last output. */
    ownEnds: () => string[];
    /** Peak memory of each process in MB, by role. */
    peakMb: () => Promise<Record<string, number>>;
  }>;

type ProcessOptions = Readonly<{
  role: string;
  /** The entry point. */
  file: string;
  environment: Readonly<Record<string, string>>;
  /** Default: the current one. */
  cwd?: string;
}>;

/** The heap that docs/production.md recommends for a process with many streams; a container of 2 GB has about as much. */
const MAX_HEAP_MB = 1_536;

/** A process that still runs after this time is killed. */
const END_WITHIN_MS = 10_000;

/**
 * @param settings for all processes; they override each process's own environment
 * @param endBy SIGTERM for processes that have to stop their own Postgres
 */
export function createProcesses(settings: Readonly<Record<string, string>>, endBy: 'SIGTERM' | 'SIGKILL'): Processes {
  const children = new Map<string, Child>();
  const starting = new Set<Promise<Child>>();
  return {
    async start({ role, environment, ...options }) {
      const start = startChild({
        ...options,
        environment: { NODE_OPTIONS: `--max-old-space-size=${MAX_HEAP_MB}`, ...environment, ...settings },
        onLine: () => undefined,
      });
      starting.add(start);
      const child = await start;
      children.set(role, child);
      return child;
    },
    ownEnds: () =>
      [...children].flatMap(([role, child]) => {
        const end = child.ownEnd();
        return end === null ? [] : [`${role} ended by itself: ${end}`];
      }),
    async peakMb() {
      const peaks: Record<string, number> = {};
      for (const [role, { pid }] of children) {
        const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
        const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
        if (kilobytes !== undefined) peaks[role] = Math.round(Number(kilobytes) / 1_024);
      }
      return peaks;
    },
    async [Symbol.asyncDispose]() {
      // If one of several parallel starts fails, the others must be awaited before disposal.
      const started = await Promise.allSettled(starting);
      await Promise.all(started.map((start) => (start.status === 'fulfilled' ? end(start.value, endBy) : undefined)));
    },
  };
}

async function end(child: Child, by: NodeJS.Signals): Promise<void> {
  child.kill(by);
  const patience = setTimeout(() => child.kill('SIGKILL'), END_WITHIN_MS);
  await child.ended;
  clearTimeout(patience);
}
