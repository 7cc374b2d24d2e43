import { type Log, toSafeError } from '../platform/log.ts';
import { aroundMs, createLooker } from '../platform/looker.ts';
import { indexWords } from '../store/around/message-words.ts';
import type { Db } from '../store/db/database.ts';

const INTERVAL_MS = 1_000;
const MIN_PAUSE_MS = 50;

/**
 * Indexes the words of new messages about every second. While there are more it rests as long as it works, so that it
 * takes at most half of one connection's time from the steps. Disposing it waits for the current transaction.
 */
export function startWordIndexer({ db, log }: Readonly<{ db: Db; log: Log }>): AsyncDisposable {
  return createLooker(async () => {
    const began = performance.now();
    try {
      const looked = await indexWords(db);
      if (looked !== null && looked > 0) return Math.max(MIN_PAUSE_MS, performance.now() - began);
    } catch (error) {
      log('warn', { event: 'words_index_failed', error: toSafeError(error) });
    }
    return aroundMs(INTERVAL_MS);
  }, aroundMs(INTERVAL_MS));
}
