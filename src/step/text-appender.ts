import type { Db } from '../store/database.ts';
import { appendChunks, type StreamedPieces } from '../store/step-writes.ts';
import { isStoreUnavailable } from '../store/store-unavailable.ts';
import { createWriteGroup } from './write-group.ts';

/** Appends streamed text of one message. False: fenced. */
export type TextAppender = (streamed: StreamedPieces) => Promise<boolean>;

/**
 * One statement for all the sessions that stream at once in a process: one for each of them would be thousands in a
 * second. While Postgres is away everybody is told so at once: each tries again with what has come since.
 */
export function createTextAppender(db: Db): TextAppender {
  return createWriteGroup((streamed: readonly StreamedPieces[], failure) => {
    if (isStoreUnavailable(failure)) throw failure;
    return appendChunks(db, streamed);
  });
}
