import { BatonError } from '../../domain/errors.ts';
import type { LineRoom } from './line-rooms.ts';

const LINE_BREAK = 0x0a;
const ENDLESS = { hold: () => undefined };

/**
 * Splits a stream of bytes into lines. Each byte is looked at once and copied once: a message of 16 MiB comes in 256
 * pieces, for which split2, which searches all that it holds again with each piece, takes 1.5 s of a processor.
 * @param maxBytes of a line that has not ended yet
 * @param room for it beside those of others
 */
export function createByteLines(
  maxBytes: number,
  room: Pick<LineRoom, 'hold'> = ENDLESS,
): { push: (piece: Buffer) => string[] } {
  let held: Buffer[] = [];
  let heldBytes = 0;
  const hold = (piece: Buffer): void => {
    heldBytes += piece.byteLength;
    if (heldBytes > maxBytes) {
      held = [];
      heldBytes = 0;
      throw new BatonError('payload_too_large', `a message is larger than ${maxBytes} bytes`);
    }
    room.hold(heldBytes);
    held.push(piece);
  };
  const takeHeld = (): string => {
    const line = Buffer.concat(held).toString('utf8');
    held = [];
    heldBytes = 0;
    room.hold(0);
    return line;
  };
  return {
    /** The lines that end in this piece, without their line breaks. @throws BatonError `payload_too_large` */
    push(piece) {
      const lines: string[] = [];
      let from = 0;
      for (let at = piece.indexOf(LINE_BREAK); at !== -1; at = piece.indexOf(LINE_BREAK, from)) {
        hold(piece.subarray(from, at));
        lines.push(takeHeld());
        from = at + 1;
      }
      if (from < piece.byteLength) hold(piece.subarray(from));
      return lines;
    },
  };
}
