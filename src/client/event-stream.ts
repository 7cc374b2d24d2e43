import { BatonError } from './baton-error.ts';
import { createDeliveredText, type DeliveredText } from './delivered-text.ts';
import { isWorthRetrying, pause, retryDelayMs } from './retry.ts';
import type { DurableEvent, LiveEvent, SnapshotEvent, StreamEvent } from './session-events.ts';
import { createSseReader } from './sse-frames.ts';
import { pathOf, type Transport, unreachable } from './transport.ts';

export type EventOptions = Readonly<{
  /** Replay events after this one first; 0: from the beginning; absent: only new events. */
  after?: number | undefined;
  /** Ends the iteration at any time. */
  signal?: AbortSignal | undefined;
}>;

/** A server sends a heartbeat every 5 s, so one that is silent for this long is gone, even if TCP does not notice. */
const MAX_SILENCE_MS = 20_000;

type Heartbeat = Readonly<{ type: 'heartbeat' }>;
type Incoming = StreamEvent | Heartbeat;

/** A reader's position, over all of its connections. */
type Place = {
  /** The last durable event that the reader got; null: none yet, and no replay. */
  cursor: number | null;
  /** The id of that event, which also names the history of the server's database. */
  lastId: string | null;
  /** Attempts to connect in a row without an event. */
  failures: number;
  wasConnected: boolean;
  text: DeliveredText;
};

/**
 * Follows a session: a snapshot, then every durable event after the cursor, exactly once and in order. Text comes as
 * chunks, each character once: by its `llm:response` the chunks of a message are its whole text.
 *
 * A connection that breaks or falls silent is replaced for as long as it takes, and goes on at the same place. Only the
 * first one is given up after `retries`.
 * @throws BatonError when the server refuses. An abort of the signal throws nothing: it ends the iteration
 */
export async function* streamEvents(
  transport: Transport,
  sessionId: string,
  { after, signal }: EventOptions,
  retries: number,
): AsyncGenerator<StreamEvent, void, undefined> {
  const place: Place = {
    cursor: after ?? null,
    lastId: null,
    failures: 0,
    wasConnected: false,
    text: createDeliveredText(),
  };
  while (!isAborted(signal)) {
    try {
      yield* readConnection(transport, sessionId, place, signal);
    } catch (error) {
      if (isAborted(signal)) return;
      if (!(error instanceof BatonError) || !isWorthRetrying(error, true)) throw error;
      if (!place.wasConnected && place.failures >= retries) throw error;
      place.failures += 1;
      await pause(retryDelayMs(place.failures, Math.random(), error.retryAfterMs), signal).catch(() => undefined);
    }
  }
}

/** Reads one connection. Throws when it ends. */
async function* readConnection(
  transport: Transport,
  sessionId: string,
  place: Place,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamEvent, never, undefined> {
  const connection = new AbortController();
  const stop = (): void => connection.abort();
  signal?.addEventListener('abort', stop, { once: true });
  // The snapshot is ahead of the replay after it, so its text and later previews are held until the replay is done.
  let ahead: SnapshotEvent['data'] | null = null;
  let held: LiveEvent[] = [];
  try {
    for await (const { id, event } of readEvents(transport, sessionId, place, connection)) {
      if (isAborted(signal)) break;
      place.wasConnected = true;
      if (event.type === 'session:snapshot') {
        ahead = event.data;
        join(place, ahead);
        yield event;
      } else {
        place.failures = 0;
        if (ahead !== null && isLive(event)) {
          held.push(event);
        } else {
          // The response has the rest of its message, so held previews of it are dropped.
          if (event.type === 'llm:response') held = held.filter(({ data }) => data.messageId !== event.data.messageId);
          yield* take(place, event);
        }
        place.lastId = id ?? place.lastId;
      }
      if (ahead === null || place.cursor === null || place.cursor < ahead.seq) continue;
      yield* place.text.catchUp(ahead.inFlight);
      for (const live of held) yield* take(place, live);
      ahead = null;
      held = [];
    }
    throw unreachable('the event stream ended');
  } finally {
    signal?.removeEventListener('abort', stop);
    connection.abort();
  }
}

/** Sets the place to where the replay begins. After a reset what came before is void, and all that is kept comes again. */
function join(place: Place, { seq, reset }: SnapshotEvent['data']): void {
  if (reset) place.text = createDeliveredText();
  place.cursor = reset ? 0 : Math.min(place.cursor ?? seq, seq);
}

// TypeScript narrows a property, but a signal may change during an await.
const isAborted = (signal: AbortSignal | undefined): boolean => signal?.aborted === true;

const LIVE: ReadonlySet<string> = new Set<LiveEvent['type']>(['llm:chunk', 'llm:thinking', 'llm:tool-input']);
const isLive = (event: Incoming): event is LiveEvent => LIVE.has(event.type);

function take(place: Place, event: DurableEvent | LiveEvent | Heartbeat): readonly StreamEvent[] {
  if (event.type === 'heartbeat') return [];
  if (event.type === 'llm:chunk') return place.text.accept(event.data);
  if ('seq' in event) {
    if (event.seq <= (place.cursor ?? 0)) return [];
    place.cursor = event.seq;
  }
  if (event.type === 'llm:response') return [...place.text.complete(event.data), event];
  return [event];
}

/** The events of one connection. Gives it up when it falls silent. */
async function* readEvents(
  transport: Transport,
  sessionId: string,
  { cursor, lastId }: Place,
  connection: AbortController,
): AsyncGenerator<Readonly<{ id: string | null; event: Incoming }>, void, undefined> {
  const id = lastId ?? (cursor === null ? null : String(cursor));
  const headers = { accept: 'text/event-stream', ...(id !== null && { 'last-event-id': id }) };
  const onSilence = (): void => connection.abort(unreachable('the event stream fell silent'));
  try {
    const path = pathOf`/v1/sessions/${sessionId}/events`;
    const init: RequestInit = { headers, signal: connection.signal, cache: 'no-store' };
    const { body } = await within(transport.open(path, init), onSilence);
    if (body === null) throw unreachable('the event stream has no body');
    const reader = body.getReader();
    const frames = createSseReader();
    for (;;) {
      const { done, value } = await within(reader.read(), onSilence);
      if (done) return;
      for (const frame of frames.read(value)) yield { id: frame.id, event: transport.decode(frame.data) };
    }
  } catch (error) {
    if (connection.signal.reason instanceof BatonError) throw connection.signal.reason;
    throw error instanceof BatonError ? error : unreachable('the event stream broke off', error);
  }
}

async function within<Value>(answer: Promise<Value>, onSilence: () => void): Promise<Value> {
  const timer = setTimeout(onSilence, MAX_SILENCE_MS);
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}
