import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { EVENT_SCHEMAS, LIVE_SCHEMAS, type LiveEvent, type NewEvent } from '../../domain/events.ts';
import { type SessionSnapshot, sessionSnapshotSchema } from '../../events/stream-item.ts';
import { toApiError } from './api-error.ts';
import { readSseFrames, type SseFrame } from './sse-frames.ts';

/** What a client of the event stream sees. */
export type FeedItem =
  | Readonly<{ kind: 'snapshot'; snapshot: SessionSnapshot }>
  | Readonly<{ kind: 'event'; seq: number; runId: string | null; createdAt: string; event: NewEvent }>
  | Readonly<{ kind: 'live'; event: LiveEvent }>;

export type FeedOptions = Readonly<{
  /** Address of the stream, without query. */
  url: string;
  signal: AbortSignal;
  /** Pause before the first attempt to connect again, in milliseconds; it grows with each. */
  retryDelayMs?: number;
}>;

/** Attempts to connect again without a single new event in between. */
const MAX_ATTEMPTS = 5;

/**
 * Follows a session from its first event on. A connection that breaks is made again where it was (`Last-Event-ID`), so
 * that every durable event comes exactly once. Ends only with the signal.
 * @throws ApiError when the server refuses, the last error when it cannot be reached, and the signal's reason
 */
export async function* followSession({ url, signal, retryDelayMs = 200 }: FeedOptions): AsyncGenerator<FeedItem, void> {
  let lastSeq = 0;
  let attempts = 0;
  for (;;) {
    try {
      for await (const item of readOnce(url, lastSeq, signal)) {
        if (item.kind === 'event') {
          if (item.seq <= lastSeq) continue;
          lastSeq = item.seq;
          attempts = 0;
        }
        yield item;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!isLostConnection(error) || attempts >= MAX_ATTEMPTS) throw error;
    }
    attempts += 1;
    if (attempts > MAX_ATTEMPTS) throw new Error(`the event stream ended ${attempts} times in a row`);
    await sleep(retryDelayMs * attempts, undefined, { signal });
  }
}

async function* readOnce(url: string, lastSeq: number, signal: AbortSignal): AsyncGenerator<FeedItem, void> {
  const headers = { accept: 'text/event-stream', ...(lastSeq > 0 ? { 'last-event-id': String(lastSeq) } : {}) };
  const response = await fetch(`${url}?after=0`, { headers, signal });
  if (!response.ok || response.body === null) throw await toApiError(response);
  for await (const frame of readSseFrames(response.body)) {
    const item = toFeedItem(frame);
    if (item !== null) yield item;
  }
}

/** `fetch` says both "refused" and "broke off" with a TypeError. */
const isLostConnection = (error: unknown): boolean => error instanceof TypeError;

const eventEnvelope = z.object({
  seq: z.number().int(),
  runId: z.string().nullable().default(null),
  createdAt: z.iso.datetime(),
});

/** Null for what has nothing to show: heartbeats, and names that a newer server may have. */
function toFeedItem({ event: type, data: text }: SseFrame): FeedItem | null {
  const envelope = z.looseObject({ data: z.unknown() }).parse(JSON.parse(text));
  const { data } = envelope;
  if (type === 'session:snapshot') return { kind: 'snapshot', snapshot: sessionSnapshotSchema.parse(data) };
  if (type === 'llm:chunk') return { kind: 'live', event: { type, data: LIVE_SCHEMAS[type].parse(data) } };
  if (type === 'llm:thinking') return { kind: 'live', event: { type, data: LIVE_SCHEMAS[type].parse(data) } };
  if (!isEventType(type)) return null;
  // The schema of that very name has checked the data; TypeScript cannot follow the pair through a lookup.
  const event = { type, data: EVENT_SCHEMAS[type].parse(data) } as NewEvent;
  return { kind: 'event', ...eventEnvelope.parse(envelope), event };
}

const isEventType = (type: string): type is NewEvent['type'] => Object.hasOwn(EVENT_SCHEMAS, type);
