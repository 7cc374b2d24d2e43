/**
 * A signal that aborts after `delayMs`, as `AbortSignal.timeout()` has it. Disposed, it lets go of everything at once:
 * that one keeps its timer, and with it whatever was told to listen, until its time is over.
 */
export function abortAfter(delayMs: number): Disposable & Readonly<{ signal: AbortSignal }> {
  const controller = new AbortController();
  const timer = setTimeout(() => {
    controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
  }, delayMs);
  timer.unref();
  return { signal: controller.signal, [Symbol.dispose]: () => clearTimeout(timer) };
}
