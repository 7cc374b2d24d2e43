import type { Db } from '../store/db/database.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import { appendChunks, type StreamedPieces } from '../store/work/step-writes.ts';
import { createWriteGroup } from './write-group.ts';

/** Appends streamed text of one message. False: fenced. */
export type TextAppender = (streamed: StreamedPieces) => Promise<boolean>;

/**
 * Writes the text of all streaming sessions of a process in one statement; one for each would be thousands a second.
 * While Postgres is unavailable the whole group fails at once, and each stream retries with its newer text.
 */
export function createTextAppender(db: Db): TextAppender {
  return createWriteGroup((streamed: readonly StreamedPieces[], failure) => {
    if (isStoreUnavailable(failure)) throw failure;
    return appendChunks(db, streamed);
  });
}
