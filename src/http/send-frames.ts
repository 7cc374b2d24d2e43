import type { ServerResponse } from 'node:http';
import { type FrameSource, isStall } from './frame-source.ts';
import type { OpenAnswer } from './open-answer.ts';
import { createWriteSlots } from './write-slots.ts';

/** A connection reports only completed writes: within a larger one the progress of a slow reader would not be seen. */
const MAX_PIECE_BYTES = 16_384;

/** Pieces of large frames that all streams write in one round of the event loop: 256 kB. */
const takeSlot = createWriteSlots(16);

/** Writes frames straight to the connection. A web stream would at least double the cost of each, for every reader. */
export function sendFrames(
  { status, headers }: Response,
  source: FrameSource,
  outgoing: ServerResponse,
  answer: Pick<OpenAnswer, 'alsoHolds' | 'changed' | 'giveUp'>,
): void {
  const queue = createFrameQueue(outgoing, source.drained);
  answer.alsoHolds(queue.bytes);
  outgoing.on('close', source.cancel).on('error', source.cancel);
  outgoing.on('close', queue.discard).on('drain', queue.flush);
  if (outgoing.destroyed) source.cancel();
  outgoing.writeHead(status, Object.fromEntries(headers)).flushHeaders();
  source.flowTo({
    write(frame) {
      queue.write(frame);
      answer.changed();
    },
    bufferedBytes: queue.bytes,
    end: queue.end,
    // The reader sees a broken stream and reconnects.
    fail: (error) => (isStall(error) ? answer.giveUp() : outgoing.destroy()),
  });
}

const EMPTY = Buffer.alloc(0);

type FrameQueue = Readonly<{
  write: (frame: Buffer) => void;
  /** Writes waiting frames, as far as the connection takes them. */
  flush: () => void;
  /** Bytes that wait, without those being written. */
  bytes: () => number;
  /** Ends the response after the waiting frames. */
  end: () => void;
  discard: () => void;
}>;

/**
 * Keeps frames while the connection is full, which would merge them into one write and report no progress before its
 * end.
 */
function createFrameQueue(outgoing: ServerResponse, onTaken: () => void): FrameQueue {
  let pieces: Buffer[] = [];
  let bytes = 0;
  let isOver = false;
  let awaitsSlot = false;
  const flush = (): void => {
    if (awaitsSlot) return;
    let slot: Promise<void> | null = null;
    let sentCount = 0;
    while (!outgoing.writableNeedDrain && slot === null) {
      if (pieces[sentCount] === undefined) break;
      slot = takeSlot();
      if (slot === null) writePiece(sentCount++);
    }
    forget(sentCount);
    if (slot === null) return;
    awaitsSlot = true;
    void slot.then(() => {
      awaitsSlot = false;
      // The connection may have been closed meanwhile, with all that waited for it.
      if (pieces.length > 0 && !outgoing.writableNeedDrain) {
        writePiece(0);
        forget(1);
      }
      flush();
    });
  };
  function writePiece(index: number): void {
    const piece = pieces[index] ?? EMPTY;
    bytes -= piece.length;
    outgoing.write(piece);
  }
  function forget(count: number): void {
    pieces.splice(0, count);
    if (count > 0) onTaken();
    if (isOver && pieces.length === 0) outgoing.end();
  }
  return {
    write(frame) {
      const isAtOnce = pieces.length === 0 && !outgoing.writableNeedDrain && frame.length <= MAX_PIECE_BYTES;
      if (isAtOnce) return void outgoing.write(frame);
      bytes += frame.length;
      // No copies: all readers of a frame share its memory.
      for (let start = 0; start < frame.length; start += MAX_PIECE_BYTES) {
        pieces.push(frame.subarray(start, start + MAX_PIECE_BYTES));
      }
      flush();
    },
    flush,
    bytes: () => bytes,
    end() {
      isOver = true;
      flush();
    },
    discard() {
      pieces = [];
      bytes = 0;
    },
  };
}
