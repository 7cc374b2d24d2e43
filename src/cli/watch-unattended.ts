import { setTimeout as delay } from 'node:timers/promises';
import type { BatonClient } from '../client/client.ts';

/** Interval of looks for a worker. A worker that is being replaced is not missed. */
const LOOK_EVERY_MS = 1_000;
/** Looks in a row without a worker before a message. */
const LOOKS = 3;

/** Tells when no worker takes steps, because runs then wait without another sign, and when one does again. */
export function watchUnattended(client: Pick<BatonClient, 'readiness'>, tell: (text: string) => void): Disposable {
  const stop = new AbortController();
  let inVain = 0;
  const look = async (): Promise<void> => {
    // A service that does not answer here must not stop the command.
    const { unattended } = await client.readiness({ signal: stop.signal }).catch(() => ({ unattended: undefined }));
    if (unattended === undefined || stop.signal.aborted) return;
    const isMissing = unattended.includes('step');
    if (isMissing && ++inVain === LOOKS) {
      tell('no worker takes steps at the moment: runs wait until one is started (baton worker steps)');
    }
    if (!isMissing && inVain >= LOOKS) tell('a worker takes steps again');
    if (!isMissing) inVain = 0;
  };
  const keepLooking = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      await delay(LOOK_EVERY_MS, undefined, { ref: false });
      if (!stop.signal.aborted) await look();
    }
  };
  void keepLooking();
  return { [Symbol.dispose]: () => stop.abort() };
}
