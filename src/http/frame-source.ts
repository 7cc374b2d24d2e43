import { AsyncLocalStorage } from 'node:async_hooks';
import { BatonError } from '../domain/errors.ts';
import { ANSWER_STALL_LIMIT_MS, SSE_MAX_BUFFERED_BYTES } from '../domain/tunables.ts';
import type { Direct } from '../events/stream-mailbox.ts';
import { createWriteSlots } from './write-slots.ts';

export type FrameSourceOptions = Readonly<{
  signal: AbortSignal;
  /** Most bytes that wait for the reader, besides one frame that is larger by itself. */
  maxBufferedBytes?: number;
  /** A reader that takes nothing from a full buffer for this long is dropped. Default: 30 s. */
  stallLimitMs?: number;
  /** Called once when the stream has ended, for any reason. */
  onEnd?: () => void;
}>;

type FrameSink = Readonly<{
  write: (frame: Buffer) => void;
  /**
   * Bytes that the reader has not taken. If the number falls in finer steps, a slower reader is still noticed as alive.
   */
  bufferedBytes: () => number;
  end: () => void;
  fail: (error: unknown) => void;
}>;

export type FrameSource = Readonly<{
  /** Writes frames until the stream ends, fails or is cancelled. Called once. */
  flowTo: (sink: FrameSink) => void;
  /** Called when the sink's buffer has become smaller. */
  drained: () => void;
  /** Called when the reader is gone. */
  cancel: () => void;
  /** Resolves with the first frame, or when the stream ends without one. */
  opened: Promise<void>;
}>;

/** Opens the stream only when a sink takes the frames. */
export function openFrameSource<Item>(
  open: (direct: Direct<Item>) => AsyncIterable<Item>,
  toFrame: (item: Item) => Buffer,
  options: FrameSourceOptions,
): FrameSource {
  const cancelled = new AbortController();
  const signal = AbortSignal.any([options.signal, cancelled.signal]);
  const room = createRoom(options.stallLimitMs ?? ANSWER_STALL_LIMIT_MS, signal);
  const maxBufferedBytes = options.maxBufferedBytes ?? SSE_MAX_BUFFERED_BYTES;
  // The stream runs in the async context of the request that opened it, so that its trace goes on.
  const inContext = AsyncLocalStorage.snapshot();
  const start = Promise.withResolvers<void>();
  let isTaken = false;
  const take = (): boolean => {
    if (isTaken) return false;
    isTaken = true;
    return true;
  };
  // Calls `onEnd` even if no sink ever took the frames.
  const drop = (): void => {
    if (!take()) return;
    start.resolve();
    inContext(() => options.onEnd?.());
  };
  signal.addEventListener('abort', drop, { once: true });
  if (signal.aborted) drop();
  return {
    flowTo(sink) {
      if (!take()) return sink.end();
      const hasRoom = (): boolean => sink.bufferedBytes() < maxBufferedBytes;
      const write = (item: Item): void => {
        sink.write(toFrame(item));
        start.resolve();
      };
      const wait = (): Promise<boolean> => room.wait(hasRoom, sink.bufferedBytes);
      const end = (): void => {
        start.resolve();
        options.onEnd?.();
      };
      const flow = (): Promise<void> => {
        const stream = open({ hasRoom: () => !signal.aborted && hasRoom(), send: write });
        return pump(stream, write, { wait, signal }).then(sink.end, sink.fail).finally(end);
      };
      void inContext(flow);
    },
    drained: room.onTake,
    cancel: () => cancelled.abort(),
    opened: start.promise,
  };
}

/** Frames per round of the event loop: about a millisecond of work. */
const takeSlot = createWriteSlots(32);

/** Takes item by item while there is room. Resolves when the stream has ended or the reader is gone. */
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
      const slot = takeSlot();
      if (slot !== null) await slot;
      if (signal.aborted) return;
      write(next.value);
    }
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

/** The frames as a web stream, which opens the source at its first read. */
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
    // A copy: the reader of a web stream may change its bytes, and other readers share the frame.
    write: (frame) => controller.enqueue(new Uint8Array(frame)),
    bufferedBytes: () => -(controller.desiredSize ?? 0),
    end() {
      // A body that the reader has cancelled is already closed, and `close` throws.
      try {
        controller.close();
      } catch {
        // Nothing left to close.
      }
    },
    fail: (error) => controller.error(error),
  };
}

type Room = Readonly<{
  /** Called when the reader took something. */
  onTake: () => void;
  /** True: there is room. False: the reader is gone. @throws BatonError `limit_exceeded` when it stalls */
  wait: (hasRoom: () => boolean, bufferedBytes: () => number) => Promise<boolean>;
}>;

function createRoom(stallLimitMs: number, signal: AbortSignal): Room {
  let wake: (() => void) | null = null;
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
    onTake: () => wake?.(),
    async wait(hasRoom, bufferedBytes) {
      while (!signal.aborted && !hasRoom()) {
        const before = bufferedBytes();
        await change();
        // A reader that takes a little at a time is slow, not gone.
        if (!signal.aborted && bufferedBytes() >= before) throw tooSlow();
      }
      return !signal.aborted;
    },
  };
}

/** Whether a stream failed because its reader took nothing. */
export const isStall = (error: unknown): boolean => error instanceof BatonError && error.code === 'limit_exceeded';

const tooSlow = (): BatonError =>
  new BatonError('limit_exceeded', 'the reader of the event stream is too slow; it can resume where it was');
