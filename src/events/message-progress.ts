import { type ChunkEvent, contentLength, type LiveEvent, withContent } from '../domain/run/events.ts';

/** Previews that wait for what comes before them. More are dropped, oldest first: those are persisted first. */
const MAX_HELD_PREVIEWS = 500;
const MAX_HELD_CHARS = 262_144;

/** How many ended messages are remembered, so that their late deltas are known for what they are. */
const MAX_ENDED_MESSAGES = 32;

/** The message that is being written, as far as one reader has been told. Ids are public. */
type OpenMessage = { messageId: string; runId: string; epoch: number; sent: number };

/**
 * Decides which previews of a session go to one reader, so that it gets every character of a message exactly once and
 * in order: between the message's `step:started` and the event that ends it, whatever the bus loses, doubles or
 * reorders. What each function returns is to be sent, in that order.
 */
export type MessageProgress = Readonly<{
  /** Begins anew from a snapshot, which holds `sent` characters of the message in flight. */
  restart: (inFlight: OpenMessage | null) => void;
  accept: (event: LiveEvent) => LiveEvent[];
  /**
   * Whether it goes on where the open message is, and nothing waits: what comes of it can go
   * before anything is looked up.
   */
  goesOn: (event: LiveEvent) => boolean;
  /** The `step:started` of a message was sent. */
  begin: (messageId: string, runId: string) => LiveEvent[];
  /** Persisted text of the open message, without a hole. */
  fill: (chunks: readonly ChunkEvent[]) => LiveEvent[];
  /** What was not yet sent of a message whose whole text is known. */
  complete: (messageId: string, chunks: readonly ChunkEvent[]) => LiveEvent[];
  /** Nothing more of this message is sent. */
  end: (messageId: string) => void;
  open: () => Readonly<OpenMessage> | null;
  /** How much of the message was sent; null when it has ended. */
  sentOf: (messageId: string) => number | null;
  /** Deltas wait for text that did not come. */
  hasGap: () => boolean;
  /** A message began that we do not know of: events are waiting to be read. True once for each such message. */
  takeEventsWanted: () => boolean;
}>;

/** How far one reader of one session is, before it has been told anything. */
export function createMessageProgress(): MessageProgress {
  let open: OpenMessage | null = null;
  let snapshotMessage: OpenMessage | null = null;
  let thoughtOf: string | null = null;
  let highestEpoch = 0;
  let held: LiveEvent[] = [];
  let wantedFor: string | null = null;
  let eventsWanted = false;
  const ended = new Set<string>();
  /** How far the inputs of the open message's calls were sent. */
  const inputs = new Map<string, Readonly<{ epoch: number; sent: number }>>();

  function hold(event: LiveEvent): LiveEvent[] {
    held.push(event);
    let chars = held.reduce((sum, each) => sum + contentLength(each), 0);
    while (held.length > MAX_HELD_PREVIEWS || chars > MAX_HELD_CHARS) {
      const dropped = held.shift();
      if (dropped !== undefined) chars -= contentLength(dropped);
    }
    return [];
  }

  function holdUnknown(event: LiveEvent): LiveEvent[] {
    const { messageId } = event.data;
    if (event.type !== 'llm:thinking' && event.data.epoch < highestEpoch) return [];
    if (wantedFor !== messageId) {
      wantedFor = messageId;
      eventsWanted = true;
    }
    return hold(event);
  }

  function accept(event: LiveEvent): LiveEvent[] {
    const { messageId } = event.data;
    if (ended.has(messageId)) return [];
    if (open?.messageId !== messageId) return holdUnknown(event);
    if (event.type === 'llm:chunk') return acceptChunk(open, event);
    if (event.type === 'llm:tool-input') return acceptInput(open, event);
    if (thoughtOf === messageId || open.sent > 0) return [];
    thoughtOf = messageId;
    return [event];
  }

  function acceptChunk(message: OpenMessage, event: ChunkEvent): LiveEvent[] {
    const chunk = event.data;
    if (chunk.epoch < message.epoch || chunk.offset + chunk.content.length <= message.sent) return [];
    message.epoch = chunk.epoch;
    highestEpoch = Math.max(highestEpoch, chunk.epoch);
    if (chunk.offset > message.sent) return hold(event);
    return [...advance(message, event), ...release()];
  }

  /** Each piece at most once and in order; nobody fills in what was lost. */
  function acceptInput(message: OpenMessage, event: Extract<LiveEvent, { type: 'llm:tool-input' }>): LiveEvent[] {
    const { id, epoch, offset, content } = event.data;
    if (epoch < message.epoch) return [];
    const known = inputs.get(id);
    const sent = known?.epoch === epoch ? known.sent : -1;
    if (offset + content.length <= sent) return [];
    inputs.set(id, { epoch, sent: offset + content.length });
    return [offset >= sent ? event : withContent(event, sent, content.slice(sent - offset))];
  }

  function advance(message: OpenMessage, chunk: ChunkEvent): LiveEvent[] {
    const rest = restOf(chunk, message.sent);
    message.sent += rest.data.content.length;
    return rest.data.content === '' ? [] : [rest];
  }

  /** Sends on what was held and can go now. */
  function release(): LiveEvent[] {
    if (held.length === 0) return [];
    const waiting = held.toSorted((a, b) => offsetOf(a) - offsetOf(b));
    held = [];
    return waiting.flatMap(accept);
  }

  return {
    restart(inFlight) {
      open = inFlight;
      snapshotMessage = inFlight;
      highestEpoch = Math.max(highestEpoch, inFlight?.epoch ?? 0);
      ended.clear();
      inputs.clear();
      held = [];
      wantedFor = null;
      eventsWanted = false;
    },
    accept,
    goesOn: ({ type, data }) =>
      open?.messageId === data.messageId && held.length === 0 && (type !== 'llm:chunk' || data.offset <= open.sent),
    begin(messageId, runId) {
      if (open?.messageId === messageId) return [];
      // A replay passes the start of the message whose text the snapshot had: it goes on from there.
      open =
        snapshotMessage?.messageId === messageId ? snapshotMessage : { messageId, runId, epoch: highestEpoch, sent: 0 };
      held = held.filter(({ data }) => data.messageId === messageId);
      return release();
    },
    fill(chunks) {
      const message = open;
      if (message === null) return [];
      const filled = chunks.flatMap((chunk) => (chunk.data.offset > message.sent ? [] : advance(message, chunk)));
      return [...filled, ...release()];
    },
    complete(messageId, chunks) {
      if (ended.has(messageId)) return [];
      const message = open?.messageId === messageId ? open : { messageId, runId: '', epoch: 0, sent: 0 };
      return chunks.flatMap((chunk) =>
        chunk.data.offset + chunk.data.content.length <= message.sent ? [] : advance(message, chunk),
      );
    },
    end(messageId) {
      ended.add(messageId);
      if (open?.messageId === messageId) inputs.clear();
      for (const oldest of ended) {
        if (ended.size <= MAX_ENDED_MESSAGES) break;
        ended.delete(oldest);
      }
      if (open?.messageId === messageId) open = null;
      held = held.filter(({ data }) => data.messageId !== messageId);
    },
    open: () => open,
    sentOf: (messageId) => (ended.has(messageId) ? null : open?.messageId === messageId ? open.sent : 0),
    hasGap: () => held.some(({ type, data }) => type === 'llm:chunk' && data.messageId === open?.messageId),
    takeEventsWanted() {
      const wanted = eventsWanted;
      eventsWanted = false;
      return wanted;
    },
  };
}

/** The last rest that was asked for of a chunk. */
const rests = new WeakMap<ChunkEvent, ChunkEvent>();

/**
 * A chunk from a place on. Most readers of a session are at the same place: they get the same event, which is encoded
 * once for all of them.
 */
function restOf(chunk: ChunkEvent, from: number): ChunkEvent {
  const known = rests.get(chunk);
  if (known?.data.offset === from) return known;
  const { offset, content } = chunk.data;
  // U+0000 cannot be stored: the final text has U+FFFD in its place, and so must the preview.
  const rest = content.slice(from - offset).replaceAll('\u0000', '\ufffd');
  const event: ChunkEvent =
    rest === content ? chunk : { type: chunk.type, data: { ...chunk.data, offset: from, content: rest } };
  rests.set(chunk, event);
  return event;
}

const offsetOf = (event: LiveEvent): number => (event.type === 'llm:chunk' ? event.data.offset : -1);
