export type StreamTiming = Readonly<{
  heartbeatIntervalMs: number;
  /** How late a reader is told at worst when the bus loses everything. */
  pollIntervalMs: number;
  /** The first pause before a look for persisted text that a delta was ahead of; it doubles up to the poll's. */
  fillRetryMs: number;
}>;

export type StreamSchedule = Readonly<{
  /** Each `take` is true once when its time has come. */
  takeHeartbeat: () => boolean;
  takePoll: () => boolean;
  takeFill: () => boolean;
  /** Plans a look at the persisted text while there is a gap, forgets it when there is none. */
  planFill: (hasGap: boolean) => void;
  /** Milliseconds until something is due; never negative. */
  nextInMs: () => number;
}>;

/**
 * When a stream has something to do although nobody called.
 * @param phase when within an interval it polls, as a share of it: streams of the same one poll together
 */
export function createStreamSchedule(timing: StreamTiming, phase: number): StreamSchedule {
  const now = (): number => performance.now();
  const nextPoll = (): number => {
    const turns = now() / timing.pollIntervalMs - phase;
    return (Math.floor(turns) + 1 + phase) * timing.pollIntervalMs;
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
