import { BatonError } from './baton-error.ts';
import type { Run, RunStatus } from './contract.ts';
import { isWorthRetrying, pause, retryDelayMs } from './retry.ts';

const ENDED: ReadonlySet<RunStatus> = new Set(['completed', 'failed', 'cancelled', 'incomplete']);

export const hasEnded = ({ status }: Run): boolean => ENDED.has(status);

/**
 * Asks for a run until it has ended or needs an answer, or the time is over, also while the service is unavailable.
 * @param ask reads the run, waiting for a change for at most these milliseconds
 * @param endMs on the clock of `performance.now()`
 * @throws BatonError when the service refuses, or is still unavailable at the end; the reason of the signal
 */
export async function untilAtRest(
  first: Run,
  ask: (leftMs: number) => Promise<Run>,
  endMs: number,
  signal: AbortSignal | undefined,
): Promise<Run> {
  let run = first;
  let failures = 0;
  while (!hasEnded(run) && run.status !== 'requires_action') {
    const leftMs = Math.ceil(endMs - performance.now());
    if (leftMs <= 0) return run;
    try {
      run = await ask(leftMs);
      failures = 0;
    } catch (error) {
      const mayComeBack = error instanceof BatonError && isWorthRetrying(error, true);
      const delayMs = mayComeBack ? retryDelayMs(failures + 1, Math.random(), error.retryAfterMs) : 0;
      if (!mayComeBack || performance.now() + delayMs >= endMs) throw error;
      failures += 1;
      await pause(delayMs, signal);
    }
  }
  return run;
}
