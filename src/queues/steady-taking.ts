import { setTimeout as delay } from 'node:timers/promises';
import type { IQueueBackend } from 'bullmq';
import type { WorkReport } from '../platform/work-watch.ts';

/** Pause of a worker after a failed request to its queue. After two of them it is at work on a server that took over. */
export const RETRY_AFTER_MS = 500;

/** A request for work is answered at once, by work or by none. */
const SILENT_AFTER_MS = 5_000;

type Taking = Readonly<{
  /** Whether the worker takes no more jobs. */
  isOver: () => boolean;
  onError: (error: unknown) => void;
  report?: WorkReport | undefined;
}>;

/**
 * Makes the requests for work of one worker pause after each failure, and go on where they were. BullMQ itself pauses
 * only when the connection is lost: it repeats what a server has refused (READONLY, OOM, MISCONF, a full disk) at once,
 * thousands of times a second, and waits up to 10 s for the mark of a job that a failed request has used up.
 */
export function takeSteadily(backend: IQueueBackend, { isOver, onError, report }: Taking): Disposable {
  const closing = new AbortController();
  const pause = (): Promise<void> =>
    delay(RETRY_AFTER_MS, undefined, { signal: closing.signal, ref: false }).catch(() => undefined);
  const take = backend.moveToActive.bind(backend);
  const wait = backend.waitForJob.bind(backend);
  backend.moveToActive = async (token, name) => {
    for (;;) {
      // ioredis sends a request again and again while its connection breaks, and never says so.
      const silent = setInterval(() => report?.failed(new Error('no answer')), SILENT_AFTER_MS).unref();
      try {
        const job = await take(token, name).finally(() => clearInterval(silent));
        report?.succeeded();
        return job;
      } catch (error) {
        if (isOver() || closing.signal.aborted) throw error;
        report?.failed(error);
        onError(error);
        await pause();
      }
    }
  };
  backend.waitForJob = async (blockTimeout) => {
    try {
      const found = await wait(blockTimeout);
      report?.succeeded();
      return found;
    } catch (error) {
      if (isOver() || closing.signal.aborted) throw error;
      report?.failed(error);
      onError(error);
      await pause();
      // The failed wait may have taken the mark of a job that waits: the worker looks at once.
      return { member: '', score: 0 };
    }
  };
  return { [Symbol.dispose]: () => closing.abort() };
}
