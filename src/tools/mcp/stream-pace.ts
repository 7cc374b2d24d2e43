import { setTimeout as delay } from 'node:timers/promises';
import { backOffMs } from '../../platform/back-off.ts';

const FIRST_MS = 250;
/** A stream without an answer that somebody waits for. */
const CAP_MS = 30_000;
/** One that goes on where the last one broke off may bring an answer. */
const RESUMED_CAP_MS = 1_000;
/** After a stream that has lasted this long, the next one is opened without a pause. */
const SETTLED_AFTER_MS = 10_000;

/**
 * Puts growing pauses before streams that follow each other quickly. The SDK asks for the next one as soon as the last
 * one has ended, a second later or when the server wishes (`retry: 0`), for ever.
 * @returns waits for the turn of the next stream
 */
export function createStreamPace(): (isResumed: boolean, signal: AbortSignal | undefined) => Promise<void> {
  let openedAtMs = Number.NEGATIVE_INFINITY;
  let quick = 0;
  return async (isResumed, signal) => {
    quick = performance.now() - openedAtMs < SETTLED_AFTER_MS ? quick + 1 : 0;
    if (quick > 0) {
      const pauseMs = backOffMs(quick - 1, FIRST_MS, isResumed ? RESUMED_CAP_MS : CAP_MS);
      await delay(pauseMs, undefined, { ref: false, ...(signal !== undefined && { signal }) });
    }
    openedAtMs = performance.now();
  };
}
