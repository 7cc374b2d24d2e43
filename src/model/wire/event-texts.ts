import type { PieceRoom } from './piece-room.ts';

const BREAK = /\r?\n\r?\n/;
/** So many characters of a break may stand at the end of what is held. */
const PART_OF_BREAK = 3;

export type EventTexts = Readonly<{
  /** The texts of the events that end in this piece. @throws RangeError if the unfinished one finds no room */
  push: (piece: string) => readonly string[];
  /** The text behind the last break: the beginning of an event. */
  rest: () => string;
}>;

/**
 * Splits a stream into the texts of its events. Each piece is searched once: to search all that is held with each
 * further piece of an event of 20 MiB would take a worker seconds, in which none of its runs goes on.
 */
export function createEventTexts(room: PieceRoom): EventTexts {
  let held: string[] = [];
  let heldChars = 0;
  let end = '';
  const keep = (piece: string): void => {
    heldChars += piece.length;
    room.hold(heldChars);
    held.push(piece);
    end = (end + piece).slice(-PART_OF_BREAK);
  };
  return {
    push(piece) {
      if (!BREAK.test(end + piece)) {
        keep(piece);
        return [];
      }
      const texts = [...held, piece].join('').split(BREAK);
      const rest = texts.pop() ?? '';
      [held, heldChars, end] = [[], 0, ''];
      keep(rest);
      return texts;
    },
    rest: () => held.join(''),
  };
}
