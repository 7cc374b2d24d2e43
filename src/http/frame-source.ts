import { AsyncLocalStorage } from 'node:async_hooks';
import { BatonError } from '../domain/errors.ts';
import { SSE_MAX_BUFFERED_BYTES } from '../domain/tunables.ts';
import type { Direct } from '../events/stream-mailbox.ts';
import { createWriteTurns } from './write-turns.ts';

/**
 * A full buffer of which the reader takes nothing for this long: it is gone, or as good as. Long, because Linux asks for more
 * only when a third of its own buffer is free, which holds up to 4 MB on a fast network: seconds of a slow reader.
 */
const STALL_LIMIT_MS = 30_000;

export type FrameSourceOptions = Readonly<{
  signal: AbortSignal;
  /** Bytes that may wait for the reader, besides one frame that is larger itself. */
  maxBufferedBytes?: number;
  /** How long the reader may leave a full buffer as it is before it is dropped. */
  stallLimitMs?: number;
  /** Told once when the stream has ended, for whatever reason. */
  onEnd?: () => void;
}>;

/** Where frames go. */
type FrameSink = Readonly<{
  write: (frame: Buffer) => void;
  /** What was written and nobody has taken yet. The smaller it becomes piece by piece, the slower a reader may be. */
  bufferedBytes: () => number;
  end: () => void;
  fail: (error: unknown) => void;
}>;

/** Frames that wait for somebody to write them to. */
export type FrameSource = Readonly<{
  /** Writes frames until the stream ends, fails or is cancelled. Called once. */
  flowTo: (sink: FrameSink) => void;
  /** The sink's buffer has become smaller. */
  drained: () => void;
  /** Nobody reads any more. */
  cancel: () => void;
}>;

/** Nothing of the stream is asked for before somebody takes the frames. */
export function openFrameSource<Item>(
  open: (direct: Direct<Item>) => AsyncIterable<Item>,
  toFrame: (item: Item) => Buffer,
  options: FrameSourceOptions,
): FrameSource {
  const cancelled = new AbortController();
  const signal = AbortSignal.any([options.signal, cancelled.signal]);
  const room = createRoom(options.stallLimitMs ?? STALL_LIMIT_MS, signal);
  const maxBufferedBytes = options.maxBufferedBytes ?? SSE_MAX_BUFFERED_BYTES;
  // What the stream does is part of the request that opened it, whoever takes the frames: its trace goes on.
  const inContext = AsyncLocalStorage.snapshot();
  let isTaken = false;
  const take = (): boolean => {
    if (isTaken) return false;
    isTaken = true;
    return true;
  };
  // Whoever opened it is told of its end also where nobody has begun to read.
  const drop = (): void => {
    if (take()) inContext(() => options.onEnd?.());
  };
  signal.addEventListener('abort', drop, { once: true });
  if (signal.aborted) drop();
  return {
    flowTo(sink) {
      if (!take()) return sink.end();
      const hasRoom = (): boolean => sink.bufferedBytes() < maxBufferedBytes;
      const write = (item: Item): void => sink.write(toFrame(item));
      const wait = (): Promise<boolean> => room.wait(hasRoom, sink.bufferedBytes);
      const flow = (): Promise<void> => {
        const stream = open({ hasRoom: () => !signal.aborted && hasRoom(), send: write });
        return pump(stream, write, { wait, signal }).then(sink.end, sink.fail).finally(options.onEnd);
      };
      void inContext(flow);
    },
    drained: room.made,
    cancel: () => cancelled.abort(),
  };
}

/** Frames written in one turn of the event loop: about a millisecond of work. */
const takeTurn = createWriteTurns(32);

/** Takes item by item while there is room. Resolves when the stream has ended, or nobody reads it any more. */
async function pump<Item>(
  stream: AsyncIterable<Item>,
  write: (item: Item) => void,
  { wait, signal }: Readonly<{ wait: () => Promise<boolean>; signal: AbortSignal }>,
): Promise<void> {
  const iterator = stream[Symbol.asyncIterator]();
  const stop = (): void => void iterator.return?.().catch(() => undefined);
  signal.addEventListener('abort', stop, { once: true });
  try {
    while (await wait()) {
      const next = await iterator.next();
      if (next.done === true) return;
      const turn = takeTurn();
      if (turn !== null) await turn;
      if (signal.aborted) return;
      write(next.value);
    }
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

/** The frames as a web stream, which takes none before somebody reads. */
export function toBody(source: FrameSource): ReadableStream<Uint8Array> {
  let isFlowing = false;
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (isFlowing) return source.drained();
        isFlowing = true;
        source.flowTo(toSink(controller));
      },
      cancel: source.cancel,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }),
  );
}

function toSink(controller: ReadableStreamDefaultController<Uint8Array>): FrameSink {
  return {
    // A copy: the reader of a web stream may change what it gets, and other readers share the frame.
    write: (frame) => controller.enqueue(new Uint8Array(frame)),
    bufferedBytes: () => -(controller.desiredSize ?? 0),
    end() {
      // A body that the reader has cancelled is closed already, and says so by throwing.
      try {
        controller.close();
      } catch {
        // Nothing is left to close.
      }
    },
    fail: (error) => controller.error(error),
  };
}

type Room = Readonly<{
  /** The reader took something. */
  made: () => void;
  /** True when there is room, false when the reader is gone. @throws BatonError `limit_exceeded` when it stalls */
  wait: (hasRoom: () => boolean, bufferedBytes: () => number) => Promise<boolean>;
}>;

function createRoom(stallLimitMs: number, signal: AbortSignal): Room {
  let wake: (() => void) | null = null;
  /** Resolves when the reader took something or is gone, and at the limit. */
  async function change(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const goOn = (): void => resolve();
    const timer = setTimeout(goOn, stallLimitMs);
    wake = goOn;
    signal.addEventListener('abort', goOn, { once: true });
    await promise;
    clearTimeout(timer);
    signal.removeEventListener('abort', goOn);
    wake = null;
  }
  return {
    made: () => wake?.(),
    async wait(hasRoom, bufferedBytes) {
      while (!signal.aborted && !hasRoom()) {
        const before = bufferedBytes();
        await change();
        // Who takes a little of much is slow, not gone.
        if (!signal.aborted && bufferedBytes() >= before) throw tooSlow();
      }
      return !signal.aborted;
    },
  };
}

const tooSlow = (): BatonError =>
  new BatonError('limit_exceeded', 'the reader of the event stream is too slow; it can resume where it was');
