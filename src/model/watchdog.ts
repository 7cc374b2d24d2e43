/** How long a model may be silent, and how long its answer may take. */
export type ModelTimeouts = Readonly<{
  /** Before the first sign of an answer: reasoning models think in silence. */
  firstChunkMs: number;
  /** Between two signs of it. */
  idleChunkMs: number;
  /** For the whole answer of one step, however lively it is. */
  wholeStepMs: number;
}>;

export type Watchdog = Disposable &
  Readonly<{
    /** Aborted, with a `TimeoutError`, when the model was silent for too long, or its answer took too long. */
    signal: AbortSignal;
    /** The stream showed a sign of life. */
    heard: () => void;
    /** The answer is whole: what follows are tools, which have limits of their own. */
    rest: () => void;
    /** From the beginning to the first sign; null while there was none. */
    firstChunkMs: () => number | null;
    /** Since the beginning. */
    elapsedMs: () => number;
  }>;

/**
 * Watches over one model call: a stream that stalls, or trickles on without an end, would
 * otherwise hold its run for ever.
 */
export function createWatchdog(timeouts: ModelTimeouts): Watchdog {
  const controller = new AbortController();
  const startedAtMs = performance.now();
  const elapsedMs = (): number => performance.now() - startedAtMs;
  let firstChunkMs: number | null = null;
  let resting = false;
  const expire = (what: string): void => controller.abort(new DOMException(what, 'TimeoutError'));
  const afterSilence = (ms: number): NodeJS.Timeout =>
    setTimeout(() => expire(`the model was silent for ${seconds(ms)}`), ms);
  let timer = afterSilence(timeouts.firstChunkMs);
  const whole = setTimeout(
    () => expire(`the answer took longer than ${seconds(timeouts.wholeStepMs)}`),
    timeouts.wholeStepMs,
  );
  const rest = (): void => {
    resting = true;
    clearTimeout(timer);
    clearTimeout(whole);
  };
  return {
    signal: controller.signal,
    heard() {
      firstChunkMs ??= elapsedMs();
      if (resting) return;
      clearTimeout(timer);
      timer = afterSilence(timeouts.idleChunkMs);
    },
    rest,
    firstChunkMs: () => firstChunkMs,
    elapsedMs,
    [Symbol.dispose]: rest,
  };
}

const seconds = (ms: number): string => `${ms / 1_000} s`;
