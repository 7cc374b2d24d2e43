import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { parseId } from '../domain/ids.ts';
import type { LiveEvent, SessionEvent } from '../domain/run/events.ts';
import type { Db } from '../store/database.ts';
import type { LiveSnapshot } from '../store/live-snapshot.ts';
import type { MessageProgress } from './message-progress.ts';
import { readPublicEvents } from './read-public-events.ts';
import { chunksOf, readJoinedSession, readOpenText, readWholeText } from './session-reads.ts';
import type { SessionSnapshot, StreamItem } from './stream-item.ts';

/** Events in memory at once for one reader. */
const EVENT_PAGE_SIZE = 500;

export type StreamRequest = Readonly<{
  tenantId: string;
  sessionId: string;
  /** Events after this one are replayed; 0: from the beginning; null: none, only what is new. */
  afterSeq: number | null;
  signal: AbortSignal;
}>;

/** One reader's place in a session. `last` is the last durable event that it was given. */
export type Reader = {
  readonly db: Db;
  readonly request: StreamRequest;
  readonly progress: MessageProgress;
  readonly isClosed: () => boolean;
  last: number;
};

type Items = AsyncGenerator<StreamItem, void>;

/** The snapshot, and the reader's place set to where the replay begins. @throws BatonError `not_found` */
export async function* joinSession(reader: Reader, afterSeq: number | null): Items {
  const { state, told } = await readJoinedSession(reader.db, reader.request);
  const { cursor, reset } = placeCursor(afterSeq, state);
  const data = told(reset);
  reader.last = cursor;
  reader.progress.restart(openMessageOf(data));
  yield { kind: 'snapshot', data };
}

/** A reader that lacks events which are gone, or has some that were never in this log, is given all that is kept. */
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
 * Every event after the reader's place that is committed, with what was missing of the text that they end.
 * @param announcedSeq the event that the reader was told of, where that is why it looks
 */
export async function* deliverCommitted(reader: Reader, announcedSeq: number | null): Items {
  const { tenantId, sessionId } = reader.request;
  for (;;) {
    const asked = { tenantId, sessionId, afterSeq: reader.last, limit: EVENT_PAGE_SIZE };
    const { events, hasMore } = await readPublicEvents(reader.db, asked, announcedSeq);
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

/** Retention removed what came next while this reader was on its way. */
async function* rejoin(reader: Reader): Items {
  const before = reader.last;
  yield* joinSession(reader, before);
  if (reader.last === before) throw new BatonError('internal', `the event log has a hole after event ${before}`);
}

async function* deliver(reader: Reader, event: SessionEvent): Items {
  const ending = endingOf(event, reader.progress);
  if (ending !== null) yield* endMessage(reader, event, ending);
  reader.last = event.seq;
  yield { kind: 'event', event };
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

/** The message whose text ends with this event, if one does. */
function endingOf(event: SessionEvent, progress: MessageProgress): Ending | null {
  const open = progress.open();
  if (event.type === 'llm:response' || event.type === 'step:reset') {
    return { ...messageSchema.parse(event.data), withText: event.type === 'llm:response' };
  }
  // A message that was cut off may end without a response of its own.
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
    const whole = uuid === null ? null : await readWholeText(reader.db, uuid);
    if (whole?.superseded !== true) yield* live(completeFrom(progress, messageId, whole, response));
  }
  progress.end(messageId);
}

/** From the parts, which have the order of the stream; from the event where the parts are gone. */
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

/** What is persisted of the open message beyond what the reader has. */
export async function* fillFromStore(reader: Reader): Items {
  const open = reader.progress.open();
  const messageId = open === null ? null : parseId('message', open.messageId);
  if (open === null || messageId === null) return;
  const place = { messageId, fromOffset: open.sent, epoch: open.epoch };
  yield* live(reader.progress.fill(await readOpenText(reader.db, place)));
}

function* live(events: readonly LiveEvent[]): Generator<StreamItem, void> {
  for (const event of events) yield { kind: 'live', event };
}
