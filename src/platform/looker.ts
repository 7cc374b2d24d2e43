export type Looker = AsyncDisposable &
  Readonly<{
    /** Looks at once. Looks that are asked for during one follow it as one. */
    look: () => void;
  }>;

/**
 * Looks again and again, one look at a time, until it is disposed. Disposing it waits for the look that is under way.
 * @param look never rejects; resolves with the milliseconds until the next look. Infinity: until one is asked for
 * @param firstInMs milliseconds until the first look
 */
export function createLooker(look: () => Promise<number>, firstInMs: number): Looker {
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | null = null;
  let isWanted = false;
  let isStopped = false;
  const begin = (): void => {
    if (isStopped) return;
    clearTimeout(timer);
    isWanted = looking !== null;
    looking ??= look().then((pauseMs) => {
      looking = null;
      if (isWanted) begin();
      else schedule(pauseMs);
    });
  };
  const schedule = (pauseMs: number): void => {
    if (!isStopped && pauseMs !== Number.POSITIVE_INFINITY) timer = setTimeout(begin, pauseMs);
  };
  schedule(firstInMs);
  return {
    look: begin,
    async [Symbol.asyncDispose]() {
      isStopped = true;
      clearTimeout(timer);
      await looking;
    },
  };
}

/** A time around `intervalMs`, so that the processes do not all look at once. */
export const aroundMs = (intervalMs: number): number => intervalMs * (0.75 + Math.random() / 2);

/** Looks about every `intervalMs`. @param look never rejects */
export const lookEvery = (intervalMs: number, look: () => Promise<unknown>): Looker =>
  createLooker(async () => {
    await look();
    return aroundMs(intervalMs);
  }, aroundMs(intervalMs));
