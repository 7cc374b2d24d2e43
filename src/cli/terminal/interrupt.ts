import { constants } from 'node:os';

/** A wish to stop, and the exit code that tells of it. */
export type Interrupt = Disposable & Readonly<{ signal: AbortSignal; exitCode: () => number }>;

/** `npm run` passes the terminal's Ctrl-C on although the process has it already: it arrives twice. */
const SAME_WISH_MS = 1_000;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Turns Ctrl-C, a kill, a closed terminal and a reader of the output that has gone into one wish to stop in order. A
 * second signal later than a second after the first ends the process at once.
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
  // These stay: what is written last to a closed pipe fails when the demo is over already.
  for (const output of outputs) output.on('error', brokenPipe);
  return {
    signal: stop.signal,
    exitCode: () => exitCode,
    [Symbol.dispose]() {
      for (const name of SIGNALS) process.off(name, wish);
    },
  };
}
