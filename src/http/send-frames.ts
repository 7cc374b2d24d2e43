import type { ServerResponse } from 'node:http';
import type { FrameSource } from './frame-source.ts';

/** A connection says of each write only that all of it is gone: of larger ones a slow reader's progress is not seen. */
const MAX_PIECE_BYTES = 16_384;

/**
 * Writes a response of frames to its connection as they come. Through a web stream each frame would cost twice the time
 * at least, once for every reader.
 */
export function sendFrames({ status, headers }: Response, source: FrameSource, outgoing: ServerResponse): void {
  const queue = createFrameQueue(outgoing, source.drained);
  outgoing.on('close', source.cancel).on('error', source.cancel);
  outgoing.on('close', queue.discard).on('drain', queue.flush);
  if (outgoing.destroyed) source.cancel();
  outgoing.writeHead(status, Object.fromEntries(headers)).flushHeaders();
  source.flowTo({
    write: queue.write,
    bufferedBytes: queue.bytes,
    end: queue.end,
    // The reader sees an end that is none, and comes back.
    fail: () => outgoing.destroy(),
  });
}

type FrameQueue = Readonly<{
  write: (frame: Buffer) => void;
  /** Writes what waits, as far as the connection takes it. */
  flush: () => void;
  /** What waits, without what is being written. */
  bytes: () => number;
  /** Ends the response behind what waits. */
  end: () => void;
  discard: () => void;
}>;

/**
 * Keeps frames while the connection is full. Left to the connection, all of them would become one write, and whether
 * its reader takes any of it is not known before it has taken all.
 */
function createFrameQueue(outgoing: ServerResponse, onTaken: () => void): FrameQueue {
  let pieces: Buffer[] = [];
  let bytes = 0;
  let isOver = false;
  const flush = (): void => {
    let taken = 0;
    while (!outgoing.writableNeedDrain) {
      const piece = pieces[taken];
      if (piece === undefined) break;
      taken += 1;
      bytes -= piece.length;
      outgoing.write(piece);
    }
    pieces.splice(0, taken);
    if (taken > 0) onTaken();
    if (isOver && pieces.length === 0) outgoing.end();
  };
  return {
    write(frame) {
      const isAtOnce = pieces.length === 0 && !outgoing.writableNeedDrain && frame.length <= MAX_PIECE_BYTES;
      if (isAtOnce) return void outgoing.write(frame);
      bytes += frame.length;
      // No copies: all readers that wait for a frame share its memory.
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
