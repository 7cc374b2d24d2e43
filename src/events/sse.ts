import { BatonError } from '../domain/errors.ts';
import { SSE_MAX_BUFFERED_BYTES } from '../domain/tunables.ts';
import type { StreamItem } from './stream-item.ts';

/** A full buffer of which the reader takes nothing for this long: it is gone, or as good as. */
const STALL_LIMIT_MS = 5_000;

type Envelope = Readonly<{ type: string; seq?: number; runId?: string; createdAt?: string; data: unknown }>;

/**
 * One item as a server-sent event. Only durable events have an id: it is what a client sends as `Last-Event-ID`, and a
 * preview must never move that cursor. (https://html.spec.whatwg.org/multipage/server-sent-events.html)
 */
export function toSseFrame(item: StreamItem): string {
  switch (item.kind) {
    case 'snapshot':
      return frame({ type: 'session:snapshot', data: item.data });
    case 'live':
      return frameOnce(item.event, () => frame(item.event));
    case 'heartbeat':
      return frame({ type: 'heartbeat', data: { seq: item.seq } });
    case 'event': {
      const { seq, type, runId, createdAt, data } = item.event;
      const envelope = { type, seq, ...(runId === null ? {} : { runId }), createdAt, data };
      return frameOnce(item.event, () => `id: ${seq}\n${frame(envelope)}`);
    }
  }
}

const frame = (envelope: Envelope): string => `event: ${envelope.type}\ndata: ${JSON.stringify(envelope)}\n\n`;

/** The readers of a session get the very same events: what one of them has encoded, the others need not. */
const frames = new WeakMap<object, string>();

function frameOnce(event: object, encode: () => string): string {
  const known = frames.get(event);
  if (known !== undefined) return known;
  const made = encode();
  frames.set(event, made);
  return made;
}

export type SseOptions = Readonly<{
  signal: AbortSignal;
  /** Bytes that may wait for the reader, besides one frame that is larger itself. */
  maxBufferedBytes?: number;
  /** How long the reader may leave a full buffer as it is before it is dropped. */
  stallLimitMs?: number;
  /** Told once when the stream has ended, for whatever reason. */
  onEnd?: () => void;
}>;

/**
 * A stream as a response of type `text/event-stream`. While the buffer is full nothing is taken from the stream, which
 * keeps its place in Postgres; a reader that then takes nothing for `stallLimitMs` is dropped: the body fails with
 * BatonError `limit_exceeded`, the stream is closed, and the reader can resume where it was.
 */
export function sseResponse(stream: AsyncIterable<StreamItem>, options: SseOptions): Response {
  return framesResponse(stream, toSseFrame, options);
}

/** The same for a stream of anything, each item of which is a frame of text. */
export function framesResponse<Item>(
  stream: AsyncIterable<Item>,
  toFrame: (item: Item) => string,
  options: SseOptions & Readonly<{ headers?: Readonly<Record<string, string>> }>,
): Response {
  const cancelled = new AbortController();
  const signal = AbortSignal.any([options.signal, cancelled.signal]);
  const room = createRoom(options.stallLimitMs ?? STALL_LIMIT_MS, signal);
  const body = new ReadableStream<Uint8Array>(
    {
      start: (controller) => void pump(stream, toFrame, { controller, room, signal }).finally(options.onEnd),
      pull: room.made,
      cancel: () => cancelled.abort(),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: options.maxBufferedBytes ?? SSE_MAX_BUFFERED_BYTES }),
  );
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      ...options.headers,
    },
  });
}

type Sink = Readonly<{ controller: ReadableStreamDefaultController<Uint8Array>; room: Room; signal: AbortSignal }>;

async function pump<Item>(
  stream: AsyncIterable<Item>,
  toFrame: (item: Item) => string,
  { controller, room, signal }: Sink,
): Promise<void> {
  const encoder = new TextEncoder();
  const iterator = stream[Symbol.asyncIterator]();
  const stop = (): void => void iterator.return?.().catch(() => undefined);
  signal.addEventListener('abort', stop, { once: true });
  try {
    while (await room.wait(() => (controller.desiredSize ?? 0) > 0)) {
      const next = await iterator.next();
      if (next.done === true || signal.aborted) break;
      controller.enqueue(encoder.encode(toFrame(next.value)));
    }
    closeBody(controller);
  } catch (error) {
    controller.error(error);
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

function closeBody(controller: Sink['controller']): void {
  // A body that the reader has cancelled is closed already, and says so by throwing.
  try {
    controller.close();
  } catch {
    // Nothing is left to close.
  }
}

type Room = Readonly<{
  /** The reader took something and there is room again. */
  made: () => void;
  /** True when there is room, false when the reader is gone. @throws BatonError `limit_exceeded` when it stalls */
  wait: (hasRoom: () => boolean) => Promise<boolean>;
}>;

function createRoom(stallLimitMs: number, signal: AbortSignal): Room {
  let wake: (() => void) | null = null;
  return {
    made: () => wake?.(),
    async wait(hasRoom) {
      if (signal.aborted || hasRoom()) return !signal.aborted;
      const { promise, resolve } = Promise.withResolvers<void>();
      const goOn = (): void => resolve();
      const timer = setTimeout(goOn, stallLimitMs);
      wake = goOn;
      signal.addEventListener('abort', goOn, { once: true });
      await promise;
      clearTimeout(timer);
      signal.removeEventListener('abort', goOn);
      wake = null;
      if (signal.aborted || hasRoom()) return !signal.aborted;
      throw new BatonError('limit_exceeded', 'the reader of the event stream is too slow; it can resume where it was');
    },
  };
}
