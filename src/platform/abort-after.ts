/**
 * Like `AbortSignal.timeout()`, but disposable: the built-in signal keeps its timer and listeners until its time is
 * over.
 */
export function abortAfter(delayMs: number): Disposable & Readonly<{ signal: AbortSignal }> {
  const controller = new AbortController();
  const timer = setTimeout(() => {
    controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
  }, delayMs);
  timer.unref();
  return { signal: controller.signal, [Symbol.dispose]: () => clearTimeout(timer) };
}
