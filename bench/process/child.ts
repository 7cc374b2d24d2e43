import { fork } from 'node:child_process';
import { once } from 'node:events';

/** CPU time in milliseconds and queries to Postgres since the start; memory in use now. */
type Usage = Readonly<{
  cpuMs: number;
  queries: number;
  rssBytes: number;
  /** Memory of JavaScript: the heap, and buffers outside of it. */
  heapBytes: number;
  /** Duration of each paced answer since the last reading, as a multiple of its pauses. */
  stretches: readonly number[];
}>;

/** Messages of a child process. */
export type FromChild = Readonly<{ event: 'ready' } | { event: 'ended'; id: string } | ({ event: 'usage' } & Usage)>;

/** Messages to a child process. */
export type ToChild = Readonly<{ ask: 'usage'; collected: boolean } | { ask: 'stop' }>;

export type BenchChild = AsyncDisposable &
  Readonly<{
    usage: () => Promise<Usage>;
    /** The same after a garbage collection, so that memory counts only live objects. */
    usageCollected: () => Promise<Usage>;
    /** Calls the listener for everything that ends, until the result is disposed. */
    onEnded: (listener: (id: string) => void) => Disposable;
    /** Rejects if the process ends by itself. */
    failed: Promise<never>;
  }>;

/** Starts a process and waits until it is ready. Its logs are dropped. */
export async function startBenchChild(file: URL, environment: Readonly<Record<string, string>>): Promise<BenchChild> {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env;
  const child = fork(file, {
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...environment },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    execArgv: ['--expose-gc', ...profilerArguments()],
  });
  const exited = once(child, 'exit');
  const failed = exited.then(() => {
    throw new Error(`${file.pathname} has ended`);
  });
  failed.catch(() => undefined);
  const listeners = new Set<(id: string) => void>();
  const ready = Promise.withResolvers<void>();
  let usage = Promise.withResolvers<Usage>();
  child.on('message', (message: FromChild) => {
    if (message.event === 'ready') ready.resolve();
    if (message.event === 'usage') usage.resolve(message);
    if (message.event === 'ended') for (const listener of listeners) listener(message.id);
  });
  await Promise.race([ready.promise, failed]);
  const ask = (collected: boolean): Promise<Usage> => {
    usage = Promise.withResolvers();
    child.send({ ask: 'usage', collected } satisfies ToChild);
    return Promise.race([usage.promise, failed]);
  };
  return {
    failed,
    onEnded(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    usage: () => ask(false),
    usageCollected: () => ask(true),
    async [Symbol.asyncDispose]() {
      if (child.connected) child.send({ ask: 'stop' } satisfies ToChild);
      await exited;
    },
  };
}

/** Waits until each of these ids has ended in one of the processes. */
export async function untilEnded(children: readonly BenchChild[], ids: readonly string[]): Promise<void> {
  const left = new Set(ids);
  const all = Promise.withResolvers<void>();
  using stack = new DisposableStack();
  for (const child of children) {
    stack.use(
      child.onEnded((id) => {
        if (left.delete(id) && left.size === 0) all.resolve();
      }),
    );
  }
  await Promise.race([all.promise, ...children.map(({ failed }) => failed)]);
}

/** BENCH_CPU_PROFILE=FOLDER keeps a CPU profile of every process. */
function profilerArguments(): string[] {
  const folder = process.env['BENCH_CPU_PROFILE'];
  return folder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${folder}`];
}
