import { setImmediate as nextRound } from 'node:timers/promises';

/** Characters processed without a pause: some milliseconds of decoding, parsing, hashing or writing. */
const CHARS_AT_ONCE = 1_048_576;

/**
 * Keeps long work on text from blocking the event loop: each call gives others a turn once enough was processed.
 * @returns takes the number of characters that were processed since its last call
 */
export function createLoopShare(): (chars: number) => Promise<void> {
  let worked = 0;
  return async (chars) => {
    worked += chars;
    if (worked < CHARS_AT_ONCE) return;
    worked = 0;
    await nextRound();
  };
}
