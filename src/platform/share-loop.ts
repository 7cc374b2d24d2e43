import { setImmediate as nextTurn } from 'node:timers/promises';

/** Text that is worked on at once: some milliseconds of work, as it is decoded, parsed, hashed or written. */
const CHARS_AT_ONCE = 1_048_576;

/**
 * For work on much text in one process with others: each call lets them have their turn once so much was worked on
 * since the last one. @returns takes the characters that were worked on since the last call
 */
export function createLoopShare(): (chars: number) => Promise<void> {
  let worked = 0;
  return async (chars) => {
    worked += chars;
    if (worked < CHARS_AT_ONCE) return;
    worked = 0;
    await nextTurn();
  };
}
