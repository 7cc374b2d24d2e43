import { Worker } from 'node:worker_threads';
import { BatonError } from '../domain/errors.ts';

const THREAD_HEAP_MB = 256;

/**
 * Runs a module in a thread of its own and returns the message that it posts, of the type that the module promises. The
 * thread is ended on time-out and abort: for work that can take for ever, such as a regular expression.
 * @param workerData plain data for the thread
 * @throws BatonError `timeout` or `internal`, and the signal's reason
 */
export async function runInThread<Result>(
  module: URL,
  workerData: unknown,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Result> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  await using thread = new Worker(module, {
    workerData,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB },
  });
  thread.once('message', resolve);
  thread.once('error', (cause) => reject(new BatonError('internal', 'the thread failed', { cause })));
  thread.once('exit', () => reject(new BatonError('internal', 'the thread ended without a result')));

  using cleanup = new DisposableStack();
  const timer = setTimeout(() => reject(new BatonError('timeout', `stopped after ${timeoutMs} ms`)), timeoutMs);
  cleanup.defer(() => clearTimeout(timer));
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  cleanup.defer(() => signal.removeEventListener('abort', onAbort));
  return await promise;
}

/** The module of a thread as it is here: TypeScript in the source tree, JavaScript once built. */
export function threadModule(source: URL): URL {
  return import.meta.url.endsWith('.ts') ? source : new URL(source.href.replace(/\.ts$/, '.js'));
}
