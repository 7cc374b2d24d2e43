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

export type BusOutbox = Readonly<{
  announce: (sessionId: string, seq: number) => void;
  preview: (sessionId: string, event: LiveEvent) => void;
  requestCancel: (runId: string) => void;
  /** Tries once to send everything. Also resolves if the transport is away. */
  flush: () => Promise<void>;
  wake: () => void;
  close: () => void;
}>;

type Queued = { item: BusItem; cost: number };
type SessionQueue = { items: Queued[]; urgent: boolean };

/**
 * Queues items for a transport. Deltas wait DELTA_COALESCE_MS to be joined; an announcement, a cancel and an answer's
 * first delta are sent in the next turn of the event loop, with all other items of their session.
 */
export function createBusOutbox(transport: BusTransport, onError: (error: unknown) => void): BusOutbox {
  const sessions = new Map<string, SessionQueue>();
  const cancels = new Set<string>();
  let cost = 0;
  let closed = false;
  let inFlight: Promise<void> | null = null;
  let deltaTimer: NodeJS.Timeout | null = null;
  let urgentTimer: NodeJS.Immediate | null = null;

  function schedule(delayMs = DELTA_COALESCE_MS): void {
    if (closed || inFlight !== null || !transport.isUp()) return;
    if (deltaTimer === null && (sessions.size > 0 || cancels.size > 0)) {
      deltaTimer = setTimeout(() => {
        deltaTimer = null;
        void send(() => true);
      }, delayMs).unref();
    }
    if (delayMs <= DELTA_COALESCE_MS && urgentTimer === null && isUrgent()) {
      urgentTimer = setImmediate(() => {
        urgentTimer = null;
        void send((queue) => queue.urgent);
      });
    }
  }

  let urgentSessions = 0;
  const isUrgent = (): boolean => urgentSessions > 0 || cancels.size > 0;

  function queueOf(sessionId: string): SessionQueue {
    const pending = sessions.get(sessionId);
    if (pending !== undefined) return pending;
    const queue: SessionQueue = { items: [], urgent: false };
    sessions.set(sessionId, queue);
    return queue;
  }

  function enqueue(sessionId: string, item: BusItem, itemCost: number): void {
    queueOf(sessionId).items.push({ item, cost: itemCost });
    cost += itemCost;
  }

  function announce(sessionId: string, seq: number): void {
    const queue = queueOf(sessionId);
    const earlier = queue.items.findIndex(({ item }) => 'seq' in item);
    const replaced = earlier === -1 ? undefined : queue.items.splice(earlier, 1)[0];
    if (replaced !== undefined) cost -= replaced.cost;
    const highest = replaced !== undefined && 'seq' in replaced.item ? Math.max(replaced.item.seq, seq) : seq;
    enqueue(sessionId, { seq: highest }, ITEM_COST);
    hurry(queue);
    makeRoom();
    schedule();
  }

  function hurry(queue: SessionQueue): void {
    if (!queue.urgent) urgentSessions += 1;
    queue.urgent = true;
  }

  function preview(sessionId: string, event: LiveEvent): void {
    const queue = queueOf(sessionId);
    const last = queue.items.at(-1);
    const joined = last === undefined || 'seq' in last.item ? null : joinPreviews(last.item.event, event);
    if (last !== undefined && joined !== null) {
      last.item = { event: joined };
      last.cost += contentLength(event);
      cost += contentLength(event);
    } else {
      enqueue(sessionId, { event }, ITEM_COST + contentLength(event));
    }
    if (event.type !== 'llm:thinking' && event.data.offset === 0) hurry(queue);
    makeRoom();
    schedule();
  }

  /** Drops the oldest previews first, and announcements last: the readers' slow poll finds those. */
  function makeRoom(): void {
    if (cost <= MAX_QUEUED_COST) return;
    for (const droppable of [(item: BusItem) => 'event' in item, () => true]) {
      for (const [sessionId, queue] of sessions) {
        dropFrom(sessionId, queue, droppable);
        if (cost <= KEPT_COST) return;
      }
    }
  }

  function dropFrom(sessionId: string, queue: SessionQueue, droppable: (item: BusItem) => boolean): void {
    for (let index = 0; index < queue.items.length && cost > KEPT_COST; ) {
      const queued = queue.items[index];
      if (queued === undefined || !droppable(queued.item)) {
        index += 1;
        continue;
      }
      queue.items.splice(index, 1);
      cost -= queued.cost;
    }
    if (queue.items.length === 0) forget(sessionId, queue);
  }

  function forget(sessionId: string, queue: SessionQueue): void {
    sessions.delete(sessionId);
    if (queue.urgent) urgentSessions -= 1;
  }

  type Batch = Readonly<{ bySession: ReadonlyMap<string, readonly Queued[]>; cancels: readonly string[] }>;

  function take(wanted: (queue: SessionQueue) => boolean): Batch {
    const batchItems = new Map<string, readonly Queued[]>();
    for (const [sessionId, queue] of sessions) {
      if (!wanted(queue)) continue;
      batchItems.set(sessionId, queue.items);
      for (const queued of queue.items) cost -= queued.cost;
      forget(sessionId, queue);
    }
    const batch = { bySession: batchItems, cancels: [...cancels] };
    cancels.clear();
    return batch;
  }

  function encode(batch: Batch): Outgoing[] {
    const requests = batch.cancels.map((runId) => ({ sessionId: null, payload: encodeCancel(runId) }));
    const news = batch.bySession.entries().flatMap(([sessionId, queued]) => {
      const items = queued.map(({ item }) => item);
      return encodeSession(sessionId, items, transport.maxPayloadBytes).map((payload) => ({ sessionId, payload }));
    });
    return [...requests, ...news];
  }

  /** Queues cancels and announcements of a failed batch again, which may double them. Its previews are lost. */
  function putBack(batch: Batch): void {
    for (const runId of batch.cancels) cancels.add(runId);
    for (const [sessionId, queued] of batch.bySession) {
      for (const { item } of queued) if ('seq' in item) announce(sessionId, item.seq);
    }
  }

  async function send(wanted: (queue: SessionQueue) => boolean): Promise<void> {
    if (inFlight !== null || !transport.isUp()) return;
    const batch = take(wanted);
    const outgoing = encode(batch);
    if (outgoing.length === 0) return;
    let failed = false;
    inFlight = transport.send(outgoing).catch((error: unknown) => {
      failed = true;
      onError(error);
    });
    await inFlight;
    if (failed) putBack(batch);
    inFlight = null;
    schedule(failed ? RETRY_DELAY_MS : DELTA_COALESCE_MS);
  }

  async function flush(): Promise<void> {
    while (inFlight !== null) await inFlight;
    await send(() => true);
  }

  return {
    announce,
    preview,
    requestCancel(runId) {
      cancels.add(runId);
      schedule();
    },
    flush,
    wake: () => schedule(),
    close() {
      closed = true;
      if (deltaTimer !== null) clearTimeout(deltaTimer);
      if (urgentTimer !== null) clearImmediate(urgentTimer);
      sessions.clear();
      cancels.clear();
    },
  };
}
