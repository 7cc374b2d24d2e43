export type ModelTimeouts = Readonly<{
  /** Before the first sign of an answer: reasoning models are silent while they think. */
  firstChunkMs: number;
  /** Between two signs. */
  idleChunkMs: number;
  /** For the whole answer of one step, however lively it is. */
  wholeStepMs: number;
}>;

export type Watchdog = Disposable &
  Readonly<{
    /** Aborted with a `TimeoutError` after too long a silence or too long an answer. */
    signal: AbortSignal;
    /** To be called at every sign of life. */
    heard: () => void;
    /** Stops the timers: the answer is whole, and tools have limits of their own. */
    rest: () => void;
    /** From the beginning to the first sign; null: none yet. */
    firstChunkMs: () => number | null;
    elapsedMs: () => number;
  }>;

/** Watches one model call: a stream that stalls or trickles on without an end would hold its run for ever. */
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
