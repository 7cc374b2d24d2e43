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

type Progress = {
  open: OpenMessage | null;
  snapshotMessage: OpenMessage | null;
  thoughtOf: string | null;
  highestEpoch: number;
  held: LiveEvent[];
  wantedFor: string | null;
  eventsWanted: boolean;
  readonly ended: Set<string>;
  /** Sent positions within the inputs of the open message's calls. */
  readonly inputs: Map<string, Readonly<{ epoch: number; sent: number }>>;
};

export function createMessageProgress(): MessageProgress {
  const progress: Progress = {
    open: null,
    snapshotMessage: null,
    thoughtOf: null,
    highestEpoch: 0,
    held: [],
    wantedFor: null,
    eventsWanted: false,
    ended: new Set(),
    inputs: new Map(),
  };
  return {
    restart: (inFlight) => restart(progress, inFlight),
    accept: (event) => accept(progress, event),
    goesOn: ({ type, data }) => {
      const { open, held } = progress;
      if (open?.messageId !== data.messageId || held.length > 0) return false;
      return type !== 'llm:chunk' || data.offset <= open.sent;
    },
    begin: (messageId, runId) => begin(progress, messageId, runId),
    fill: (chunks) => fill(progress, chunks),
    complete: (messageId, chunks) => complete(progress, messageId, chunks),
    end: (messageId) => end(progress, messageId),
    open: () => progress.open,
    sentOf: (messageId) => {
      if (progress.ended.has(messageId)) return null;
      return progress.open?.messageId === messageId ? progress.open.sent : 0;
    },
    hasGap: () => hasGap(progress),
    takeEventsWanted() {
      const wanted = progress.eventsWanted;
      progress.eventsWanted = false;
      return wanted;
    },
  };
}

function restart(progress: Progress, inFlight: OpenMessage | null): void {
  progress.open = inFlight;
  progress.snapshotMessage = inFlight;
  progress.highestEpoch = Math.max(progress.highestEpoch, inFlight?.epoch ?? 0);
  progress.ended.clear();
  progress.inputs.clear();
  progress.held = [];
  progress.wantedFor = null;
  progress.eventsWanted = false;
}

function begin(progress: Progress, messageId: string, runId: string): LiveEvent[] {
  if (progress.open?.messageId === messageId) return [];
  const { snapshotMessage, highestEpoch } = progress;
  // A replay passes the `step:started` of the snapshot's open message. Its text continues after the snapshot.
  progress.open =
    snapshotMessage?.messageId === messageId ? snapshotMessage : { messageId, runId, epoch: highestEpoch, sent: 0 };
  progress.held = progress.held.filter(({ data }) => data.messageId === messageId);
  return release(progress);
}

function fill(progress: Progress, chunks: readonly ChunkEvent[]): LiveEvent[] {
  const message = progress.open;
  if (message === null) return [];
  const filled = chunks.flatMap((chunk) => (chunk.data.offset > message.sent ? [] : advance(message, chunk)));
  return [...filled, ...release(progress)];
}

function complete({ ended, open }: Progress, messageId: string, chunks: readonly ChunkEvent[]): LiveEvent[] {
  if (ended.has(messageId)) return [];
  const message = open?.messageId === messageId ? open : { messageId, runId: '', epoch: 0, sent: 0 };
  return chunks.flatMap((chunk) =>
    chunk.data.offset + chunk.data.content.length <= message.sent ? [] : advance(message, chunk),
  );
}

function end(progress: Progress, messageId: string): void {
  const { ended } = progress;
  ended.add(messageId);
  for (const oldest of ended) {
    if (ended.size <= MAX_ENDED_MESSAGES) break;
    ended.delete(oldest);
  }
  if (progress.open?.messageId === messageId) {
    progress.inputs.clear();
    progress.open = null;
  }
  progress.held = progress.held.filter(({ data }) => data.messageId !== messageId);
}

function accept(progress: Progress, event: LiveEvent): LiveEvent[] {
  const { messageId } = event.data;
  const { open } = progress;
  if (progress.ended.has(messageId)) return [];
  if (open?.messageId !== messageId) return holdUnknown(progress, event);
  if (event.type === 'llm:chunk') return acceptChunk(progress, open, event);
  if (event.type === 'llm:tool-input') return acceptInput(progress, open, event);
  if (progress.thoughtOf === messageId || open.sent > 0) return [];
  progress.thoughtOf = messageId;
  return [event];
}

function acceptChunk(progress: Progress, message: OpenMessage, event: ChunkEvent): LiveEvent[] {
  const chunk = event.data;
  if (chunk.epoch < message.epoch || chunk.offset + chunk.content.length <= message.sent) return [];
  message.epoch = chunk.epoch;
  progress.highestEpoch = Math.max(progress.highestEpoch, chunk.epoch);
  if (chunk.offset > message.sent) return hold(progress, event);
  return [...advance(message, event), ...release(progress)];
}

/** Sends each piece at most once and in order. Lost pieces stay lost. */
function acceptInput(
  progress: Progress,
  message: OpenMessage,
  event: Extract<LiveEvent, { type: 'llm:tool-input' }>,
): LiveEvent[] {
  const { id, epoch, offset, content } = event.data;
  if (epoch < message.epoch) return [];
  // The text before it is missing, and comes from Postgres.
  if (hasGap(progress)) return hold(progress, event);
  const input = progress.inputs.get(id);
  const sent = input?.epoch === epoch ? input.sent : -1;
  if (offset + content.length <= sent) return [];
  progress.inputs.set(id, { epoch, sent: offset + content.length });
  return [offset >= sent ? event : withContent(event, sent, content.slice(sent - offset))];
}

function advance(message: OpenMessage, chunk: ChunkEvent): LiveEvent[] {
  const rest = restOf(chunk, message.sent);
  message.sent += rest.data.content.length;
  return rest.data.content === '' ? [] : [rest];
}

function hold({ held }: Progress, event: LiveEvent): LiveEvent[] {
  held.push(event);
  let chars = held.reduce((sum, each) => sum + contentLength(each), 0);
  while (held.length > MAX_HELD_PREVIEWS || chars > MAX_HELD_CHARS) {
    const dropped = held.shift();
    if (dropped !== undefined) chars -= contentLength(dropped);
  }
  return [];
}

function holdUnknown(progress: Progress, event: LiveEvent): LiveEvent[] {
  const { messageId } = event.data;
  if (event.type !== 'llm:thinking' && event.data.epoch < progress.highestEpoch) return [];
  if (progress.wantedFor !== messageId) {
    progress.wantedFor = messageId;
    progress.eventsWanted = true;
  }
  return hold(progress, event);
}

/** Returns the held previews that can go now. */
function release(progress: Progress): LiveEvent[] {
  if (progress.held.length === 0) return [];
  const waiting = inOrder(progress.held);
  progress.held = [];
  return waiting.flatMap((event) => accept(progress, event));
}

function hasGap({ held, open }: Progress): boolean {
  return held.some(({ type, data }) => type === 'llm:chunk' && data.messageId === open?.messageId);
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
