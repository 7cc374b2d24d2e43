export type StreamTiming = Readonly<{
  heartbeatIntervalMs: number;
  /** Longest delay of a reader if the bus loses all news. */
  pollIntervalMs: number;
  /** First pause before stored text is read to fill a gap. It doubles up to `pollIntervalMs`. */
  fillRetryMs: number;
}>;

export type StreamSchedule = Readonly<{
  /** Each `take` is true once when its time has come. */
  takeHeartbeat: () => boolean;
  takePoll: () => boolean;
  takeFill: () => boolean;
  /** Plans a read of stored text if there is a gap, else cancels it. */
  planFill: (hasGap: boolean) => void;
  /** Milliseconds until the next action, never negative. */
  nextInMs: () => number;
}>;

/**
 * The times at which a stream acts without news.
 * @param phase time of the poll as a share of the interval
 */
export function createStreamSchedule(timing: StreamTiming, phase: number): StreamSchedule {
  const now = (): number => performance.now();
  const nextPoll = (): number => {
    const rounds = now() / timing.pollIntervalMs - phase;
    return (Math.floor(rounds) + 1 + phase) * timing.pollIntervalMs;
  };
  let heartbeatAt = now() + timing.heartbeatIntervalMs;
  let pollAt = nextPoll();
  let fillAt = Number.POSITIVE_INFINITY;
  let fillDelayMs = timing.fillRetryMs;

  return {
    takeHeartbeat() {
      if (now() < heartbeatAt) return false;
      heartbeatAt = now() + timing.heartbeatIntervalMs;
      return true;
    },
    takePoll() {
      if (now() < pollAt) return false;
      pollAt = nextPoll();
      return true;
    },
    takeFill() {
      if (now() < fillAt) return false;
      fillAt = Number.POSITIVE_INFINITY;
      fillDelayMs = Math.min(fillDelayMs * 2, timing.pollIntervalMs);
      return true;
    },
    planFill(hasGap) {
      if (!hasGap) {
        fillAt = Number.POSITIVE_INFINITY;
        fillDelayMs = timing.fillRetryMs;
      } else if (fillAt === Number.POSITIVE_INFINITY) {
        fillAt = now() + fillDelayMs;
      }
    },
    nextInMs: () => Math.max(0, Math.min(heartbeatAt, pollAt, fillAt) - now()),
  };
}
