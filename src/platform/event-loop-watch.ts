const LOOK_EVERY_MS = 250;

/** Heartbeats, and whoever asks this process anything, wait at least that long. */
const STUCK_AFTER_MS = 2_000;

/** A loop that was stuck counts as such for this long: who asks it can only ask in between. */
const REMEMBERED_MS = 10_000;

/** Notices when the event loop was stuck, by a timer that comes late. Watches until it is disposed. */
export function watchEventLoop(): Disposable & { wasStuck: () => boolean } {
  let expectedAtMs = performance.now() + LOOK_EVERY_MS;
  let stuckAtMs = Number.NEGATIVE_INFINITY;
  const timer = setInterval(() => {
    const nowMs = performance.now();
    if (nowMs - expectedAtMs > STUCK_AFTER_MS) stuckAtMs = nowMs;
    expectedAtMs = nowMs + LOOK_EVERY_MS;
  }, LOOK_EVERY_MS).unref();
  return {
    wasStuck: () => performance.now() - stuckAtMs < REMEMBERED_MS,
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
