/** How long a model may be silent. */
export type ModelTimeouts = Readonly<{
  /** Before the first sign of an answer: reasoning models think in silence. */
  firstChunkMs: number;
  /** Between two signs of it. */
  idleChunkMs: number;
}>;

export type Watchdog = Disposable &
  Readonly<{
    /** Aborted, with a `TimeoutError`, when the model was silent for too long. */
    signal: AbortSignal;
    /** The stream showed a sign of life. */
    heard: () => void;
    /** The answer is whole: what follows are tools, which have limits of their own. */
    rest: () => void;
  }>;

/** Watches over one model call: a stream that stalls would otherwise hold its run for ever. */
export function createWatchdog(timeouts: ModelTimeouts): Watchdog {
  const controller = new AbortController();
  let resting = false;
  const expire = (): void => controller.abort(new DOMException('the model was silent for too long', 'TimeoutError'));
  let timer = setTimeout(expire, timeouts.firstChunkMs);
  const rest = (): void => {
    resting = true;
    clearTimeout(timer);
  };
  return {
    signal: controller.signal,
    heard() {
      if (resting) return;
      clearTimeout(timer);
      timer = setTimeout(expire, timeouts.idleChunkMs);
    },
    rest,
    [Symbol.dispose]: rest,
  };
}
