import { getHeapStatistics } from 'node:v8';
import {
  FREE_PIECE_CHARS,
  MAX_PIECE_CHARS,
  MAX_PIECES_CHARS,
  MIN_PIECES_CHARS,
  PIECES_PER_HEAP,
} from '../../domain/tunables.ts';

/** Room for what has arrived of one answer, or of an event of it. Given back when it is disposed. */
export type PieceRoom = Disposable &
  Readonly<{
    /** Says how much is held now. @throws RangeError if that is too much for one answer, or for all together */
    hold: (chars: number) => void;
  }>;

export type PieceRooms = Readonly<{ open: () => PieceRoom; heldChars: () => number }>;

export function piecesBudget(heapBytes: number): number {
  return Math.min(MAX_PIECES_CHARS, Math.max(MIN_PIECES_CHARS, Math.floor(heapBytes * PIECES_PER_HEAP)));
}

/**
 * Bounds what a process holds of models' answers that are not whole yet, in sum. A small one needs no room. An answer
 * that finds none breaks off and is asked for again: if it waited, it would keep what it holds.
 */
export function createPieceRooms(allChars: number): PieceRooms {
  let sum = 0;
  const open = (): PieceRoom => {
    let held = 0;
    const setTo = (chars: number): void => {
      sum += chars - held;
      held = chars;
    };
    return {
      hold(chars) {
        const needed = chars <= FREE_PIECE_CHARS ? 0 : chars;
        if (needed > MAX_PIECE_CHARS) throw new RangeError('the answer, or an event of it, has more than 64 MiB');
        if (needed > held && sum - held + needed > allChars) {
          throw new RangeError('this worker had no room for the answer beside those of other calls');
        }
        setTo(needed);
      },
      [Symbol.dispose]: () => setTo(0),
    };
  };
  return { open, heldChars: () => sum };
}

/** Those of this process, because its heap is one. */
export const pieceRooms = createPieceRooms(piecesBudget(getHeapStatistics().heap_size_limit));
