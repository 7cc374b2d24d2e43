import { fork } from 'node:child_process';
import { once } from 'node:events';

/** What a child process tells. Its other messages are its own. */
export type FromChild = Readonly<
  { event: 'ready' } | { event: 'ended'; id: string } | { event: 'usage'; cpuMs: number }
>;

/** What it is asked. */
export type ToChild = Readonly<{ ask: 'usage' } | { ask: 'stop' }>;

export type BenchChild = AsyncDisposable &
  Readonly<{
    pid: number;
    /** Waits for the ends of these; the clock is this process's. */
    untilEnded: (ids: readonly string[]) => Promise<void>;
    /** CPU time that it has used so far, in milliseconds. */
    cpuMs: () => Promise<number>;
  }>;

/** Starts a process and waits until it is ready. What it logs goes nowhere, as to a collector that costs nothing. */
export async function startBenchChild(
  file: URL,
  environment: Readonly<Record<string, string>>,
  execArgv: readonly string[] = [],
): Promise<BenchChild> {
  const { PATH, HOME } = process.env;
  const child = fork(file, {
    env: { PATH, HOME, ...environment },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    execArgv: [...execArgv, ...profilerArguments()],
  });
  const exited = once(child, 'exit');
  const failed = exited.then(() => {
    throw new Error(`${file.pathname} has ended`);
  });
  failed.catch(() => undefined);
  const awaited = new Set<string>();
  let allEnded = Promise.withResolvers<void>();
  const ready = Promise.withResolvers<void>();
  let usage = Promise.withResolvers<number>();
  child.on('message', (message: FromChild) => {
    if (message.event === 'ready') ready.resolve();
    if (message.event === 'usage') usage.resolve(message.cpuMs);
    if (message.event === 'ended' && awaited.delete(message.id) && awaited.size === 0) allEnded.resolve();
  });
  await Promise.race([ready.promise, failed]);
  return {
    pid: child.pid ?? 0,
    async untilEnded(ids) {
      for (const id of ids) awaited.add(id);
      allEnded = Promise.withResolvers();
      await Promise.race([allEnded.promise, failed]);
    },
    async cpuMs() {
      usage = Promise.withResolvers();
      child.send({ ask: 'usage' } satisfies ToChild);
      return Promise.race([usage.promise, failed]);
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) child.send({ ask: 'stop' } satisfies ToChild);
      await exited;
    },
  };
}

/** BENCH_CPU_PROFILE=FOLDER keeps a CPU profile of every process. */
function profilerArguments(): string[] {
  const folder = process.env['BENCH_CPU_PROFILE'];
  return folder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${folder}`];
}
