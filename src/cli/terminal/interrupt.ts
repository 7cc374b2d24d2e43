import { constants } from 'node:os';

/** A request to stop, and the exit code for it. */
export type Interrupt = Disposable & Readonly<{ signal: AbortSignal; exitCode: () => number }>;

/** `npm run` passes on the terminal's Ctrl-C although the process has received it, so it arrives twice. */
const SAME_WISH_MS = 1_000;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Turns Ctrl-C, a kill, a closed terminal and a closed output pipe into one request for an orderly stop. A second
 * signal, more than a second after the first, ends the process at once.
 */
export function listenForInterrupt(...outputs: readonly NodeJS.WritableStream[]): Interrupt {
  const stop = new AbortController();
  let exitCode = 0;
  let firstAtMs = 0;
  const wish = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) {
      if (performance.now() - firstAtMs > SAME_WISH_MS) process.exit(exitCode);
      return;
    }
    firstAtMs = performance.now();
    exitCode = 128 + constants.signals[signal];
    stop.abort(new Error(`stopped by ${signal}`));
  };
  const brokenPipe = (): void => wish('SIGPIPE');
  for (const name of SIGNALS) process.on(name, wish);
  // These listeners stay: the last write to a closed pipe may fail after the demo is over.
  for (const output of outputs) output.on('error', brokenPipe);
  return {
    signal: stop.signal,
    exitCode: () => exitCode,
    [Symbol.dispose]() {
      for (const name of SIGNALS) process.off(name, wish);
    },
  };
}
