import { type ChunkEvent, contentLength, type LiveEvent, withContent } from '../domain/run/events.ts';

/** Previews that wait for earlier text. Over the limit the oldest are dropped, because they are stored first. */
const MAX_HELD_PREVIEWS = 500;
const MAX_HELD_CHARS = 262_144;

/** Ended messages that are remembered, to recognize their late deltas. */
const MAX_ENDED_MESSAGES = 32;

/** The open message and the part of it that one reader has received. Ids are public. */
type OpenMessage = { messageId: string; runId: string; epoch: number; sent: number };

/**
 * Selects the previews for one reader, so that it gets each character of a message once and in order, between
 * `step:started` and the end event, although the bus loses, doubles and reorders previews. Send the returned events in
 * their order.
 */
export type MessageProgress = Readonly<{
  /** Starts again from a snapshot, which has `sent` characters of the open message. */
  restart: (inFlight: OpenMessage | null) => void;
  accept: (event: LiveEvent) => LiveEvent[];
  /** Whether it continues the open message with no gap. Such a preview needs no lookup before it is sent. */
  goesOn: (event: LiveEvent) => boolean;
  /** Call it after the `step:started` of a message was sent. */
  begin: (messageId: string, runId: string) => LiveEvent[];
  /** Adds stored text of the open message, without gaps. */
  fill: (chunks: readonly ChunkEvent[]) => LiveEvent[];
  /** Returns the unsent rest of a message from its whole text. */
  complete: (messageId: string, chunks: readonly ChunkEvent[]) => LiveEvent[];
  /** Call it at the end of a message: no more of it is sent. */
  end: (messageId: string) => void;
  open: () => Readonly<OpenMessage> | null;
  /** Characters sent. Null: the message has ended. */
  sentOf: (messageId: string) => number | null;
  /** Whether deltas wait for missing text. */
  hasGap: () => boolean;
  /** True once for each unknown message: its `step:started` must be read. */
  takeEventsWanted: () => boolean;
}>;

export function createMessageProgress(): MessageProgress {
  let open: OpenMessage | null = null;
  let snapshotMessage: OpenMessage | null = null;
  let thoughtOf: string | null = null;
  let highestEpoch = 0;
  let held: LiveEvent[] = [];
  let wantedFor: string | null = null;
  let eventsWanted = false;
  const ended = new Set<string>();
  /** Sent positions within the inputs of the open message's calls. */
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

  /** Sends each piece at most once and in order. Lost pieces stay lost. */
  function acceptInput(message: OpenMessage, event: Extract<LiveEvent, { type: 'llm:tool-input' }>): LiveEvent[] {
    const { id, epoch, offset, content } = event.data;
    if (epoch < message.epoch) return [];
    // The text before it is missing, and comes from Postgres.
    if (hasGap()) return hold(event);
    const input = inputs.get(id);
    const sent = input?.epoch === epoch ? input.sent : -1;
    if (offset + content.length <= sent) return [];
    inputs.set(id, { epoch, sent: offset + content.length });
    return [offset >= sent ? event : withContent(event, sent, content.slice(sent - offset))];
  }

  function advance(message: OpenMessage, chunk: ChunkEvent): LiveEvent[] {
    const rest = restOf(chunk, message.sent);
    message.sent += rest.data.content.length;
    return rest.data.content === '' ? [] : [rest];
  }

  /** Returns the held previews that can go now. */
  function release(): LiveEvent[] {
    if (held.length === 0) return [];
    const waiting = inOrder(held);
    held = [];
    return waiting.flatMap(accept);
  }

  const hasGap = (): boolean =>
    held.some(({ type, data }) => type === 'llm:chunk' && data.messageId === open?.messageId);

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
      // A replay passes the `step:started` of the snapshot's open message. Its text continues after the snapshot.
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
    hasGap,
    takeEventsWanted() {
      const wanted = eventsWanted;
      eventsWanted = false;
      return wanted;
    },
  };
}

/** The last rest of each chunk. */
const rests = new WeakMap<ChunkEvent, ChunkEvent>();

/** The rest of a chunk. Most readers are at the same place and get the same object, which is encoded once. */
function restOf(chunk: ChunkEvent, from: number): ChunkEvent {
  const cached = rests.get(chunk);
  if (cached?.data.offset === from) return cached;
  const { offset, content } = chunk.data;
  // Postgres cannot store U+0000, so the final text has U+FFFD, and so must the preview.
  const rest = content.slice(from - offset).replaceAll('\u0000', '\ufffd');
  const event: ChunkEvent =
    rest === content ? chunk : { type: chunk.type, data: { ...chunk.data, offset: from, content: rest } };
  rests.set(chunk, event);
  return event;
}

/** Text by its offset. A piece of an input comes after the text that had arrived before it. */
function inOrder(events: readonly LiveEvent[]): readonly LiveEvent[] {
  let arrived = -1;
  const placed = events.map((event) => {
    if (event.type === 'llm:chunk') arrived = Math.max(arrived, event.data.offset);
    const place = event.type === 'llm:chunk' ? event.data.offset : event.type === 'llm:tool-input' ? arrived : -1;
    return { event, place };
  });
  return placed.toSorted((a, b) => a.place - b.place).map(({ event }) => event);
}
