import { contentLength, type LiveEvent } from '../domain/run/events.ts';
import { DELTA_COALESCE_MS } from '../domain/tunables.ts';
import { type BusItem, encodeCancel, encodeSession } from './bus-payload.ts';
import { joinPreviews } from './join-previews.ts';

/** Limit of queued items while the transport is away: characters, plus a share for each item. */
const MAX_QUEUED_COST = 1_048_576;
const ITEM_COST = 200;

/** Left after making room. Lower than the limit, so that an outage does not cost a search for each delta. */
const KEPT_COST = MAX_QUEUED_COST * 0.9;

const RETRY_DELAY_MS = 100;

export type Outgoing = Readonly<{ sessionId: string | null; payload: string }>;

export type BusTransport = Readonly<{
  /** False: the connection is away, and items are kept within the limit until `wake`. */
  isUp: () => boolean;
  /** Sends payloads in order. Rejects after a bounded time if the connection does not accept them. */
  send: (batch: readonly Outgoing[]) => Promise<void>;
  maxPayloadBytes: number;
}>;

/** Disposing it tries once to send what is left. */
export type BusOutbox = AsyncDisposable &
  Readonly<{
    announce: (sessionId: string, seq: number) => void;
    preview: (sessionId: string, event: LiveEvent) => void;
    requestCancel: (runId: string) => void;
    /** Tries once to send everything. Also resolves if the transport is away. */
    flush: () => Promise<void>;
    wake: () => void;
  }>;

/**
 * Queues items for a transport. Deltas wait DELTA_COALESCE_MS to be joined; an announcement, a cancel and an answer's
 * first delta are sent in the next round of the event loop, with all other items of their session.
 */
export function createBusOutbox(transport: BusTransport, onError: (error: unknown) => void): BusOutbox {
  const backlog: Backlog = { sessions: new Map(), cancels: new Set(), cost: 0, urgentSessions: 0 };
  let closed = false;
  let inFlight: Promise<void> | null = null;
  const timers = createTimers(
    () => void send(() => true),
    () => void send((queue) => queue.urgent),
  );

  function schedule(delayMs = DELTA_COALESCE_MS): void {
    if (closed || inFlight !== null || !transport.isUp()) return;
    if (backlog.sessions.size > 0 || backlog.cancels.size > 0) timers.startDelta(delayMs);
    if (delayMs <= DELTA_COALESCE_MS && isUrgent(backlog)) timers.startUrgent();
  }

  async function send(wanted: (queue: SessionQueue) => boolean): Promise<void> {
    if (inFlight !== null || !transport.isUp()) return;
    const batch = take(backlog, wanted);
    const outgoing = encode(batch, transport.maxPayloadBytes);
    if (outgoing.length === 0) return;
    let failed = false;
    inFlight = transport.send(outgoing).catch((error: unknown) => {
      failed = true;
      onError(error);
    });
    await inFlight;
    if (failed) putBack(backlog, batch);
    inFlight = null;
    schedule(failed ? RETRY_DELAY_MS : DELTA_COALESCE_MS);
  }

  async function flush(): Promise<void> {
    while (inFlight !== null) await inFlight;
    await send(() => true);
  }

  return {
    announce(sessionId, seq) {
      addAnnouncement(backlog, sessionId, seq);
      schedule();
    },
    preview(sessionId, event) {
      addPreview(backlog, sessionId, event);
      schedule();
    },
    requestCancel(runId) {
      backlog.cancels.add(runId);
      schedule();
    },
    flush,
    wake: () => schedule(),
    async [Symbol.asyncDispose]() {
      await flush();
      closed = true;
      timers[Symbol.dispose]();
      backlog.sessions.clear();
      backlog.cancels.clear();
    },
  };
}

/** Each timer runs once at a time: to start a running one changes nothing. */
function createTimers(onDelta: () => void, onUrgent: () => void) {
  let delta: NodeJS.Timeout | null = null;
  let urgent: NodeJS.Immediate | null = null;
  return {
    startDelta(delayMs: number): void {
      delta ??= setTimeout(() => {
        delta = null;
        onDelta();
      }, delayMs).unref();
    },
    /** For the next round of the event loop. */
    startUrgent(): void {
      urgent ??= setImmediate(() => {
        urgent = null;
        onUrgent();
      });
    },
    [Symbol.dispose](): void {
      if (delta !== null) clearTimeout(delta);
      if (urgent !== null) clearImmediate(urgent);
    },
  };
}

type Queued = { item: BusItem; cost: number };
type SessionQueue = { items: Queued[]; urgent: boolean };

/** All that waits to be sent. */
type Backlog = {
  readonly sessions: Map<string, SessionQueue>;
  readonly cancels: Set<string>;
  /** Of all items. */
  cost: number;
  urgentSessions: number;
};

const isUrgent = ({ urgentSessions, cancels }: Backlog): boolean => urgentSessions > 0 || cancels.size > 0;

function addAnnouncement(backlog: Backlog, sessionId: string, seq: number): void {
  const queue = queueOf(backlog, sessionId);
  const earlier = queue.items.findIndex(({ item }) => 'seq' in item);
  const replaced = earlier === -1 ? undefined : queue.items.splice(earlier, 1)[0];
  if (replaced !== undefined) backlog.cost -= replaced.cost;
  const highest = replaced !== undefined && 'seq' in replaced.item ? Math.max(replaced.item.seq, seq) : seq;
  enqueue(backlog, queue, { item: { seq: highest }, cost: ITEM_COST });
  hurry(backlog, queue);
  makeRoom(backlog);
}

function addPreview(backlog: Backlog, sessionId: string, event: LiveEvent): void {
  const queue = queueOf(backlog, sessionId);
  const last = queue.items.at(-1);
  const joined = last === undefined || 'seq' in last.item ? null : joinPreviews(last.item.event, event);
  if (last !== undefined && joined !== null) {
    last.item = { event: joined };
    last.cost += contentLength(event);
    backlog.cost += contentLength(event);
  } else {
    enqueue(backlog, queue, { item: { event }, cost: ITEM_COST + contentLength(event) });
  }
  if (event.type !== 'llm:thinking' && event.data.offset === 0) hurry(backlog, queue);
  makeRoom(backlog);
}

function queueOf({ sessions }: Backlog, sessionId: string): SessionQueue {
  const pending = sessions.get(sessionId);
  if (pending !== undefined) return pending;
  const queue: SessionQueue = { items: [], urgent: false };
  sessions.set(sessionId, queue);
  return queue;
}

function enqueue(backlog: Backlog, { items }: SessionQueue, queued: Queued): void {
  items.push(queued);
  backlog.cost += queued.cost;
}

function hurry(backlog: Backlog, queue: SessionQueue): void {
  if (!queue.urgent) backlog.urgentSessions += 1;
  queue.urgent = true;
}

/** Drops the oldest previews first, and announcements last: the readers' slow poll finds those. */
function makeRoom(backlog: Backlog): void {
  if (backlog.cost <= MAX_QUEUED_COST) return;
  for (const droppable of [(item: BusItem) => 'event' in item, () => true]) {
    for (const sessionId of backlog.sessions.keys()) {
      dropFrom(backlog, sessionId, droppable);
      if (backlog.cost <= KEPT_COST) return;
    }
  }
}

function dropFrom(backlog: Backlog, sessionId: string, droppable: (item: BusItem) => boolean): void {
  const queue = queueOf(backlog, sessionId);
  for (let index = 0; index < queue.items.length && backlog.cost > KEPT_COST; ) {
    const queued = queue.items[index];
    if (queued === undefined || !droppable(queued.item)) {
      index += 1;
      continue;
    }
    queue.items.splice(index, 1);
    backlog.cost -= queued.cost;
  }
  if (queue.items.length === 0) forget(backlog, sessionId, queue);
}

function forget(backlog: Backlog, sessionId: string, queue: SessionQueue): void {
  backlog.sessions.delete(sessionId);
  if (queue.urgent) backlog.urgentSessions -= 1;
}

type Batch = Readonly<{ bySession: ReadonlyMap<string, readonly Queued[]>; cancels: readonly string[] }>;

function take(backlog: Backlog, wanted: (queue: SessionQueue) => boolean): Batch {
  const bySession = new Map<string, readonly Queued[]>();
  for (const [sessionId, queue] of backlog.sessions) {
    if (!wanted(queue)) continue;
    bySession.set(sessionId, queue.items);
    for (const queued of queue.items) backlog.cost -= queued.cost;
    forget(backlog, sessionId, queue);
  }
  const batch = { bySession, cancels: [...backlog.cancels] };
  backlog.cancels.clear();
  return batch;
}

function encode(batch: Batch, maxPayloadBytes: number): Outgoing[] {
  const requests = batch.cancels.map((runId) => ({ sessionId: null, payload: encodeCancel(runId) }));
  const news = batch.bySession.entries().flatMap(([sessionId, queued]) => {
    const items = queued.map(({ item }) => item);
    return encodeSession(sessionId, items, maxPayloadBytes).map((payload) => ({ sessionId, payload }));
  });
  return [...requests, ...news];
}

/** Queues cancels and announcements of a failed batch again, which may double them. Its previews are lost. */
function putBack(backlog: Backlog, batch: Batch): void {
  for (const runId of batch.cancels) backlog.cancels.add(runId);
  for (const [sessionId, queued] of batch.bySession) {
    for (const { item } of queued) if ('seq' in item) addAnnouncement(backlog, sessionId, item.seq);
  }
}
