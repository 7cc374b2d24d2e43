import type { SessionSnapshot } from '../../src/domain/run/session-snapshot.ts';
import type { StreamItem } from '../../src/events/stream-item.ts';
import { openEventStream, type StreamDeps } from '../../src/events/subscribe.ts';
import { type Delta, type SessionWriter, TENANT } from './session-writer.ts';

export type CollectingReader = AsyncDisposable &
  Readonly<{
    items: readonly StreamItem[];
    /** Resolves when an item like this has come; rejects when the stream ends before. */
    until: (wanted: (item: StreamItem) => boolean) => Promise<StreamItem>;
    /** Resolves when the stream has ended. */
    ended: Promise<void>;
    abort: () => void;
  }>;

/** Reads a session's stream as fast as it comes and keeps everything; every other delta it has no room for at once. */
export function startReader(
  deps: StreamDeps,
  sessionId: string,
  afterSeq: number | null,
  hasRoom = everyOther(),
): CollectingReader {
  const items: StreamItem[] = [];
  const abort = new AbortController();
  const changed = new EventTarget();
  let over = false;
  const keep = (item: StreamItem): void => {
    items.push(item);
    changed.dispatchEvent(new Event('item'));
  };
  const direct = { hasRoom, send: keep };
  const request = { tenantId: TENANT, sessionId, afterSeq, signal: abort.signal };
  const stream = openEventStream({ ...deps, direct }, request);
  const ended = (async () => {
    try {
      for await (const item of stream) keep(item);
    } finally {
      over = true;
      changed.dispatchEvent(new Event('item'));
    }
  })();
  ended.catch(() => undefined);

  async function until(wanted: (item: StreamItem) => boolean): Promise<StreamItem> {
    for (;;) {
      const found = items.find(wanted);
      if (found !== undefined) return found;
      if (over) {
        await ended;
        throw new Error('the stream ended before the item came');
      }
      await new Promise((resolve) => changed.addEventListener('item', resolve, { once: true }));
    }
  }

  return {
    items,
    until,
    ended,
    abort: () => abort.abort(),
    async [Symbol.asyncDispose]() {
      abort.abort();
      await ended.catch(() => undefined);
    },
  };
}

function everyOther(): () => boolean {
  let asked = 0;
  return () => ++asked % 2 === 1;
}

export const isEvent =
  (type: string) =>
  (item: StreamItem): boolean =>
    item.kind === 'event' && item.event.type === type;

export const hasSeq =
  (seq: number) =>
  (item: StreamItem): boolean =>
    item.kind === 'event' && item.event.seq === seq;

export function seqsOf(items: readonly StreamItem[]): number[] {
  return items.flatMap((item) => (item.kind === 'event' ? [item.event.seq] : []));
}

export function snapshotsOf(items: readonly StreamItem[]): SessionSnapshot[] {
  return items.flatMap((item) => (item.kind === 'snapshot' ? [item.data] : []));
}

type Told = Readonly<{ pieces: Delta[]; problems: string[]; ended: 'open' | 'response' | 'reset' }>;

/**
 * What a reader was told of one message: the text of the snapshot and the chunks, in order, and whatever breaks the
 * rules: a chunk that does not begin where the text before it ended, or that comes after the message's end.
 */
export function toldOf(items: readonly StreamItem[], messageId: string): Told {
  const pieces: Delta[] = [];
  const problems: string[] = [];
  let ended: Told['ended'] = 'open';
  let length = 0;
  const add = (chunk: { chunkType: Delta['type']; content: string; offset: number }): void => {
    if (chunk.offset !== length) problems.push(`a chunk at ${chunk.offset} after ${length} characters`);
    if (ended !== 'open') problems.push(`a chunk after the ${ended}`);
    pieces.push({ type: chunk.chunkType, text: chunk.content });
    length += chunk.content.length;
  };
  for (const item of items) {
    if (item.kind === 'snapshot' && item.data.inFlight?.messageId === messageId) item.data.inFlight.chunks.forEach(add);
    if (item.kind === 'live' && item.event.type === 'llm:chunk' && item.event.data.messageId === messageId) {
      add(item.event.data);
    }
    if (item.kind === 'event' && item.event.data['messageId'] === messageId) {
      if (item.event.type === 'llm:response') ended = 'response';
      if (item.event.type === 'step:reset') ended = 'reset';
    }
  }
  return { pieces, problems, ended };
}

/** Streams a delta as a worker does: published at once, durable later. */
export function publish(
  bus: StreamDeps['bus'],
  writer: SessionWriter,
  message: Parameters<SessionWriter['stream']>[0],
  delta: Delta,
): void {
  bus.preview(writer.sessionId, writer.stream(message, delta));
}
