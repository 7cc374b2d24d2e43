import { Worker } from 'node:worker_threads';
import { BatonError } from '../domain/errors.ts';
import { DisposableStack } from '../platform/disposable-stacks.ts';

const THREAD_HEAP_MB = 256;

/**
 * Runs a module in its own thread and returns the message that it posts, of the module's type. Timeout and abort end
 * the thread: for work that can take forever, such as a regular expression.
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

/** The file of a thread's module: TypeScript in the source tree, JavaScript after the build. */
export function threadModule(source: URL): URL {
  return import.meta.url.endsWith('.ts') ? source : new URL(source.href.replace(/\.ts$/, '.js'));
}
