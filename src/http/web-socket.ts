import type { Socket } from 'node:net';
import type { RawData, WebSocket } from 'ws';
import { LET_IN_PER_ROUND, SOCKET_PING_INTERVAL_MS, SSE_MAX_BUFFERED_BYTES } from '../domain/tunables.ts';
import { type FrameSource, isStall } from './frame-source.ts';
import type { BodyRoom, Intake, Sender } from './intake.ts';
import type { OpenAnswer } from './open-answer.ts';
import type { OpenSocket } from './upgrade.ts';
import { createWriteSlots } from './write-slots.ts';

/** The server's side of a WebSocket. */
export type Connection = Readonly<{
  send: (text: string) => void;
  /** Aborted when the connection has ended. */
  gone: AbortSignal;
  /** The bytes that the client has not read yet. The process bounds them over all clients. */
  answer: OpenAnswer;
  /** Takes the frames of a stream no faster than the client does. Resolves at its end. */
  flow: (frames: FrameSource, write: (frame: Buffer) => void) => Promise<void>;
}>;

type SocketOptions = Readonly<{
  /** Bounds the messages that arrive at the same time, together with the bodies of requests. */
  intake: Intake;
  sender: Sender;
  /** Answers a message. The next one is taken when this is done. */
  onMessage: (message: Buffer, connection: Connection) => Promise<void>;
  /** A message has come before the one before it was answered, and is dropped. */
  onBusy: (connection: Connection) => void;
  /** When one of them aborts, the connection ends after the answer in progress. */
  ends: readonly (AbortSignal | undefined)[];
  whyEnded: () => Readonly<{ isRefused: boolean; message: string }>;
}>;

/** https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1 and IANA's registry of codes */
const CLOSE = { goingAway: 1001, noText: 1003, refused: 1008, failed: 1011, tryAgain: 1013 } as const;

/** The longest reason that a close frame takes, in bytes. */
const MAX_REASON_CHARS = 120;

/** Messages that all connections begin to answer in one round of the event loop. */
const takeSlot = createWriteSlots(LET_IN_PER_ROUND);

/** Answers the messages of a WebSocket, one after the other, until it ends. */
export function serveSocket({ socket, connection: below }: OpenSocket, options: SocketOptions): void {
  const { onMessage, onBusy, ends } = options;
  const gone = new AbortController();
  const connection = connectionOf(socket, gone.signal);
  const end = AbortSignal.any(ends.filter((signal) => signal !== undefined));
  let isBusy = false;
  const close = (code: number, why: string): void => socket.close(code, why.slice(0, MAX_REASON_CHARS));
  const endIfIdle = (): void => {
    if (isBusy) return;
    const { isRefused, message } = options.whyEnded();
    close(isRefused ? CLOSE.refused : CLOSE.goingAway, message);
  };
  const work = async (message: Buffer): Promise<void> => {
    const slot = takeSlot();
    if (slot !== null) await slot;
    await onMessage(message, connection);
  };
  const arriving = countArriving(below, options, () => close(CLOSE.tryAgain, 'too much arrives at the same time'));
  socket.on('message', (data, isBinary) => {
    arriving.complete();
    if (isBinary) return close(CLOSE.noText, 'only texts are possible here');
    if (isBusy) return onBusy(connection);
    isBusy = true;
    work(toBuffer(data))
      .catch(() => close(CLOSE.failed, 'an unexpected error'))
      .finally(() => {
        isBusy = false;
        if (end.aborted) endIfIdle();
      });
  });
  end.addEventListener('abort', endIfIdle, { once: true });
  const stopPings = keepAlive(socket);
  // A message that is too large, or no valid frame: the library closes with its code.
  socket.on('error', () => undefined);
  socket.once('close', () => {
    stopPings();
    arriving.complete();
    end.removeEventListener('abort', endIfIdle);
    gone.abort();
  });
  if (end.aborted) endIfIdle();
}

/** With `nodebuffer`, the default, a message is one buffer. */
const toBuffer = (data: RawData): Buffer => (Buffer.isBuffer(data) ? data : Buffer.concat([data].flat() as Buffer[]));

/** Ends a connection whose client does not answer. */
function keepAlive(socket: WebSocket): () => void {
  let isAlive = true;
  socket.on('pong', () => {
    isAlive = true;
  });
  const timer = setInterval(() => {
    if (!isAlive) return socket.terminate();
    isAlive = false;
    socket.ping();
  }, SOCKET_PING_INTERVAL_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** Counts the bytes of a message while it arrives, because the library has them in memory then. */
function countArriving(
  below: Socket,
  { intake, sender }: SocketOptions,
  onFull: () => void,
): Readonly<{ complete: () => void }> {
  let bytes = 0;
  let room: BodyRoom | null = null;
  const count = ({ length }: Buffer): void => {
    bytes += length;
    try {
      room ??= intake.admit(sender, bytes, onFull);
      room.arrived(length);
      room.grow(bytes);
    } catch {
      below.off('data', count);
      onFull();
    }
  };
  below.on('data', count);
  return {
    complete() {
      bytes = 0;
      room?.release();
      room = null;
    },
  };
}

function connectionOf(socket: WebSocket, gone: AbortSignal): Connection {
  let onChange = (): void => undefined;
  let onGiveUp = (): void => undefined;
  let onTaken = (): void => undefined;
  const drop = (): void => socket.terminate();
  const giveUp = (): void => {
    onGiveUp();
    drop();
  };
  const heldBytes = (): number => (gone.aborted ? 0 : socket.bufferedAmount);
  const taken = (): void => {
    onTaken();
    onChange();
  };
  return {
    gone,
    send(text) {
      // Refusals have no stream that would wait for the client.
      if (heldBytes() > 2 * SSE_MAX_BUFFERED_BYTES) return giveUp();
      if (!gone.aborted) socket.send(text, taken);
      onChange();
    },
    answer: {
      ...{ heldBytes, drop, giveUp },
      alsoHolds: () => undefined,
      changed: () => onChange(),
      whenChanged(listener) {
        onChange = listener;
        listener();
      },
      whenGivenUp(listener) {
        onGiveUp = listener;
      },
    },
    async flow(frames, write) {
      const { promise, resolve } = Promise.withResolvers<void>();
      onTaken = frames.drained;
      gone.addEventListener('abort', frames.cancel, { once: true });
      if (gone.aborted) frames.cancel();
      frames.flowTo({
        write,
        bufferedBytes: heldBytes,
        end: resolve,
        fail(error) {
          if (isStall(error)) giveUp();
          else drop();
          resolve();
        },
      });
      await promise;
      gone.removeEventListener('abort', frames.cancel);
    },
  };
}
