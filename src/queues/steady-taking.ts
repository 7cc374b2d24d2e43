import { setTimeout as delay } from 'node:timers/promises';
import type { IQueueBackend } from 'bullmq';

/** Pause of a worker after a failed request to its queue. */
export const RETRY_AFTER_MS = 1_000;

/**
 * Makes the requests for work of one worker pause after each failure, and go on where they were. BullMQ itself pauses
 * only when the connection is lost: it repeats what a server has refused (READONLY, OOM, MISCONF, a full disk) at once,
 * thousands of times a second, and waits up to 10 s for the mark of a job that a failed request has used up.
 * @param isOver whether the worker takes no more jobs
 */
export function takeSteadily(
  backend: IQueueBackend,
  isOver: () => boolean,
  onError: (error: unknown) => void,
  onTaken: () => void,
): Disposable {
  const closing = new AbortController();
  const pause = (): Promise<void> =>
    delay(RETRY_AFTER_MS, undefined, { signal: closing.signal, ref: false }).catch(() => undefined);
  const take = backend.moveToActive.bind(backend);
  const wait = backend.waitForJob.bind(backend);
  backend.moveToActive = async (token, name) => {
    for (;;) {
      try {
        const taken = await take(token, name);
        onTaken();
        return taken;
      } catch (error) {
        if (isOver() || closing.signal.aborted) throw error;
        onError(error);
        await pause();
      }
    }
  };
  backend.waitForJob = async (blockTimeout) => {
    try {
      return await wait(blockTimeout);
    } catch (error) {
      if (isOver() || closing.signal.aborted) throw error;
      onError(error);
      await pause();
      // The failed wait may have taken the mark of a job that waits: the worker looks at once.
      return { member: '', score: 0 };
    }
  };
  return { [Symbol.dispose]: () => closing.abort() };
}
