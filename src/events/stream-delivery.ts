import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { parseId } from '../domain/ids.ts';
import type { LiveEvent, SessionEvent } from '../domain/run/events.ts';
import type { SessionSnapshot } from '../domain/run/session-snapshot.ts';
import { shareReads } from '../platform/share-reads.ts';
import type { Db } from '../store/db/database.ts';
import type { LiveSnapshot } from '../store/lists/live-snapshot.ts';
import { type EventPage, readEventPage } from '../store/transcript/events.ts';
import type { MessageProgress } from './message-progress.ts';
import { chunksOf, readJoinedSession, readOpenText, readWholeText } from './session-reads.ts';
import { type StreamItem, toPublicEvent } from './stream-item.ts';

/** Events in memory for one reader. */
const EVENT_PAGE_SIZE = 500;

export type StreamRequest = Readonly<{
  tenantId: string;
  sessionId: string;
  /** Replays the events after this one. 0: all; null: none, only new ones. */
  afterSeq: number | null;
  /** The epoch that the cursor belongs to. Null or absent: the one of now. */
  afterEpoch?: string | null | undefined;
  signal: AbortSignal;
}>;

/** The place of one reader in a session. `last` is the last event that it received. */
export type Reader = {
  readonly db: Db;
  readonly request: StreamRequest;
  readonly progress: MessageProgress;
  readonly isClosed: () => boolean;
  last: number;
  /** Of the history that `last` belongs to. */
  epoch: string | null;
};

type Items = AsyncGenerator<StreamItem, void>;

/** A cursor of another history than that of now. */
export const LOST_CURSOR = Number.POSITIVE_INFINITY;

/**
 * Yields the snapshot, and sets the reader's place to the start of the replay.
 * @param afterSeq `LOST_CURSOR`: all that is kept, with a reset
 * @throws BatonError `not_found`
 */
export async function* joinSession(reader: Reader, afterSeq: number | null): Items {
  const { state, snapshotFor } = await readJoinedSession(reader.db, reader.request);
  const { cursor, reset } = placeCursor(afterSeq, state);
  const data = snapshotFor(reset);
  reader.last = cursor;
  reader.progress.restart(openMessageOf(data));
  yield { kind: 'snapshot', data };
}

/** If the events after the cursor were trimmed, or the cursor is beyond the log, all kept events are replayed. */
function placeCursor(afterSeq: number | null, state: LiveSnapshot): { cursor: number; reset: boolean } {
  if (afterSeq === null) return { cursor: state.eventSeq, reset: false };
  const beforeFirst = state.eventsFirstSeq - 1;
  if (afterSeq < beforeFirst || afterSeq > state.eventSeq) return { cursor: beforeFirst, reset: true };
  return { cursor: afterSeq, reset: false };
}

function openMessageOf({ inFlight }: SessionSnapshot): Parameters<MessageProgress['restart']>[0] {
  if (inFlight === null) return null;
  const { messageId, runId, epoch, chunks } = inFlight;
  return { messageId, runId, epoch, sent: chunks.reduce((sum, { content }) => sum + content.length, 0) };
}

/**
 * Yields all committed events after the reader's place, each after the missing text of the message that it ends.
 * @param announcedSeq the announced event that caused this read, if any
 */
export async function* deliverCommitted(reader: Reader, announcedSeq: number | null): Items {
  const { tenantId, sessionId } = reader.request;
  for (;;) {
    const page = { tenantId, sessionId, afterSeq: reader.last, limit: EVENT_PAGE_SIZE };
    const { events, hasMore } = await readPublicEvents(reader.db, page, announcedSeq);
    const first = events[0];
    if (first !== undefined && first.seq !== reader.last + 1) {
      yield* rejoin(reader);
      continue;
    }
    for (const event of events) {
      if (reader.isClosed()) return;
      yield* deliver(reader, event);
    }
    if (!hasMore || reader.isClosed()) return;
  }
}

/** Retention trimmed the next events while this reader followed. */
async function* rejoin(reader: Reader): Items {
  const before = reader.last;
  yield* joinSession(reader, before);
  if (reader.last === before) throw new BatonError('internal', `the event log has a hole after event ${before}`);
}

async function* deliver(reader: Reader, event: SessionEvent): Items {
  const ending = endingOf(event, reader.progress);
  if (ending !== null) yield* endMessage(reader, event, ending);
  reader.last = event.seq;
  yield { kind: 'event', event, epoch: reader.epoch };
  if (event.type === 'step:started') {
    const { messageId, runId } = startedSchema.parse(event.data);
    yield* live(reader.progress.begin(messageId, runId));
  }
}

const startedSchema = z.object({ messageId: z.string(), runId: z.string() });
const messageSchema = z.object({ messageId: z.string() });
const responseSchema = z.object({ messageId: z.string(), content: z.string(), reasoning: z.string().optional() });

const RUN_ENDS = new Set(['run:completed', 'run:failed', 'run:cancelled', 'run:incomplete']);

type Ending = Readonly<{ messageId: string; withText: boolean }>;

function endingOf(event: SessionEvent, progress: MessageProgress): Ending | null {
  const open = progress.open();
  if (event.type === 'llm:response' || event.type === 'step:reset') {
    return { ...messageSchema.parse(event.data), withText: event.type === 'llm:response' };
  }
  // A message that was cut off may end without an `llm:response`.
  if (open === null) return null;
  const isOver =
    event.type === 'step:completed'
      ? messageSchema.parse(event.data).messageId === open.messageId
      : RUN_ENDS.has(event.type) && event.runId === open.runId;
  return isOver ? { messageId: open.messageId, withText: true } : null;
}

async function* endMessage(reader: Reader, event: SessionEvent, { messageId, withText }: Ending): Items {
  const { progress } = reader;
  const sent = progress.sentOf(messageId);
  const response = responseSchema.safeParse(event.data).data ?? null;
  const length = response === null ? null : response.content.length + (response.reasoning ?? '').length;
  if (withText && sent !== null && sent !== length) {
    const uuid = parseId('message', messageId);
    const whole =
      uuid === null ? null : await readWholeText(reader.db, { sessionId: reader.request.sessionId, messageId: uuid });
    if (whole?.superseded !== true) yield* live(completeFrom(progress, messageId, whole, response));
  }
  progress.end(messageId);
}

/** Uses the parts, which keep the order of the stream; without parts, the text of the event. */
function completeFrom(
  progress: MessageProgress,
  messageId: string,
  whole: Awaited<ReturnType<typeof readWholeText>>,
  response: z.infer<typeof responseSchema> | null,
): LiveEvent[] {
  if (whole !== null && whole.chunks.length > 0) return progress.complete(messageId, whole.chunks);
  if (response === null) return [];
  const pieces = [
    { type: 'reasoning', text: response.reasoning ?? '' },
    { type: 'text', text: response.content },
  ] as const;
  return progress.complete(messageId, chunksOf(messageId, whole?.epoch ?? 0, pieces));
}

/** Yields stored text of the open message that the reader lacks. */
export async function* fillFromStore(reader: Reader): Items {
  const open = reader.progress.open();
  const messageId = open === null ? null : parseId('message', open.messageId);
  if (open === null || messageId === null) return;
  const place = { sessionId: reader.request.sessionId, messageId, fromOffset: open.sent, epoch: open.epoch };
  yield* live(reader.progress.fill(await readOpenText(reader.db, place)));
}

function* live(events: readonly LiveEvent[]): Generator<StreamItem, void> {
  for (const event of events) yield { kind: 'live', event };
}

type Page = Readonly<{ tenantId: string; sessionId: string; afterSeq: number; limit: number }>;

const underWay = new WeakMap<Db, Map<string, Promise<EventPage>>>();

/**
 * Committed events after `afterSeq`, oldest first, with public ids. Readers that heard of the same event share a query,
 * which began after the announcement; a reader with another reason shares only one that has not begun.
 */
export function readPublicEvents(db: Db, page: Page, announcedSeq: number | null): Promise<EventPage> {
  if (announcedSeq === null) return readPage(db, page);
  const shared = underWay.get(db) ?? new Map<string, Promise<EventPage>>();
  underWay.set(db, shared);
  const key = `${keyOf(page)},${announcedSeq}`;
  const pending = shared.get(key);
  if (pending !== undefined) return pending;
  const reading = query(db, page).finally(() => shared.delete(key));
  shared.set(key, reading);
  return reading;
}

const keyOf = ({ tenantId, sessionId, afterSeq, limit }: Page): string => [tenantId, sessionId, afterSeq, limit].join();

const readPage = shareReads(query, keyOf);

async function query(db: Db, { tenantId, sessionId, afterSeq, limit }: Page): Promise<EventPage> {
  const page = await readEventPage(db, tenantId, sessionId, { afterSeq, limit });
  return { ...page, events: page.events.map(toPublicEvent) };
}
