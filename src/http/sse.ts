import { toEventId } from '../api/event-id.ts';
import type { StreamItem } from '../events/stream-item.ts';
import type { Direct } from '../events/stream-mailbox.ts';
import { type FrameSource, type FrameSourceOptions, openFrameSource, toBody } from './frame-source.ts';

type Envelope = Readonly<{ type: string; seq?: number; runId?: string; createdAt?: string; data: unknown }>;

/**
 * One item as a server-sent event. Only durable events have an id, because clients send it as `Last-Event-ID` and a
 * preview must never move that cursor. (https://html.spec.whatwg.org/multipage/server-sent-events.html)
 */
export function toSseFrame(item: StreamItem): string {
  switch (item.kind) {
    case 'snapshot':
      return frame({ type: 'session:snapshot', data: item.data });
    case 'live':
      return frame(item.event);
    case 'heartbeat':
      return frame({ type: 'heartbeat', data: { seq: item.seq } });
    case 'event': {
      const { seq, type, runId, createdAt, data } = item.event;
      const envelope = { type, seq, ...(runId === null ? {} : { runId }), createdAt, data };
      return `id: ${toEventId(seq, item.epoch)}\n${frame(envelope)}`;
    }
  }
}

const frame = (envelope: Envelope): string => `event: ${envelope.type}\ndata: ${JSON.stringify(envelope)}\n\n`;

/** By snapshot or event. All readers of a session get the same objects, so they share the memory of the frames. */
const frames = new WeakMap<object, Buffer>();

function encodeOnce(item: StreamItem): Buffer {
  if (item.kind === 'heartbeat') return Buffer.from(toSseFrame(item));
  const content = item.kind === 'snapshot' ? item.data : item.event;
  const cached = frames.get(content);
  if (cached !== undefined) return cached;
  const encoded = Buffer.from(toSseFrame(item));
  frames.set(content, encoded);
  return encoded;
}

export type SseOptions = FrameSourceOptions & Readonly<{ headers?: Readonly<Record<string, string>> }>;

/**
 * A stream as a response of type `text/event-stream`. While the buffer is full nothing is taken from the stream, which
 * keeps its place in Postgres. A reader that then takes nothing for `stallLimitMs` is dropped: the stream is closed,
 * the body fails with BatonError `limit_exceeded`, and the reader can resume where it was.
 * @param open the stream, which may pass on directly any item that need not wait for its turn
 */
export function sseResponse(
  open: (direct: Direct<StreamItem>) => AsyncIterable<StreamItem>,
  options: SseOptions,
): Response {
  return toResponse(openFrameSource(open, encodeOnce, options), options);
}

/** The same for any stream, whose items `toFrame` turns into text. */
export function framesResponse<Item>(
  stream: AsyncIterable<Item>,
  toFrame: (item: Item) => string,
  options: SseOptions,
): Response {
  return toResponse(
    openFrameSource(
      () => stream,
      (item) => Buffer.from(toFrame(item)),
      options,
    ),
    options,
  );
}

/** By body, because middleware that adds a header may replace the response. */
const sources = new WeakMap<ReadableStream, FrameSource>();

/** The frame source of such a response, for servers that write frames without a web stream; null: another response. */
export function frameSourceOf(response: Response): FrameSource | null {
  return (response.body === null ? undefined : sources.get(response.body)) ?? null;
}

function toResponse(source: FrameSource, options: SseOptions): Response {
  const body = toBody(source);
  sources.set(body, source);
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      ...options.headers,
    },
  });
}
