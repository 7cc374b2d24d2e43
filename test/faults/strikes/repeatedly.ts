import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../support/random.ts';

/**
 * Does something again and again, with pauses of a random length, until the signal aborts. The first pause is the
 * shortest: a row of a few runs is soon over.
 */
export async function repeatedly(
  { random, signal, pauseMs }: Readonly<{ random: Random; signal: AbortSignal; pauseMs: readonly [number, number] }>,
  act: () => Promise<void> | void,
): Promise<void> {
  for (let nextMs = pauseMs[0]; !signal.aborted; nextMs = random.between(...pauseMs)) {
    await pause(nextMs, signal);
    if (!signal.aborted) await act();
  }
}

/** Waits, or until the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
}
