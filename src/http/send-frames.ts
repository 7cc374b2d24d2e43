import type { ServerResponse } from 'node:http';
import type { FrameSource } from '../events/frame-source.ts';

/**
 * Writes a response of frames to its connection as they come. Through a web stream each frame would cost twice the time
 * at least, once for every reader.
 */
export function sendFrames({ status, headers }: Response, source: FrameSource, outgoing: ServerResponse): void {
  outgoing.on('close', source.cancel).on('error', source.cancel).on('drain', source.drained);
  if (outgoing.destroyed) source.cancel();
  outgoing.writeHead(status, Object.fromEntries(headers)).flushHeaders();
  source.flowTo({
    write: (frame) => void outgoing.write(frame),
    // Below its own mark a connection takes more, and does not say when it has sent what it had.
    bufferedBytes: () => (outgoing.writableNeedDrain ? outgoing.writableLength : 0),
    end: () => outgoing.end(),
    // The reader sees an end that is none, and comes back.
    fail: () => outgoing.destroy(),
  });
}
