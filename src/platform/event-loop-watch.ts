const LOOK_EVERY_MS = 250;

/** A loop is stuck if it is late by more than this: heartbeats and requests to the process wait at least as long. */
const STUCK_AFTER_MS = 2_000;

/** A stuck loop is reported for this long, because a request can only ask once the loop is free again. */
const REMEMBERED_MS = 10_000;

/** Notices a stuck event loop by a timer that fires late. Watches until it is disposed. */
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
