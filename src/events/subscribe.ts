import type { LiveEvent } from '../domain/run/events.ts';
import { SSE_HEARTBEAT_INTERVAL_MS } from '../domain/tunables.ts';
import { DisposableStack } from '../platform/disposable-stacks.ts';
import type { Db } from '../store/db/database.ts';
import { historyOf } from '../store/db/history.ts';
import type { LiveBus } from './live-bus.ts';
import { createMessageProgress } from './message-progress.ts';
import { pollEventSeq, pollPhase } from './poll-sessions.ts';
import {
  deliverCommitted,
  fillFromStore,
  joinSession,
  LOST_CURSOR,
  type Reader,
  type StreamRequest,
} from './stream-delivery.ts';
import type { StreamItem } from './stream-item.ts';
import { createStreamMailbox, type Direct, type StreamMailbox } from './stream-mailbox.ts';
import { createStreamSchedule, type StreamSchedule, type StreamTiming } from './stream-schedule.ts';

const TIMING: StreamTiming = {
  heartbeatIntervalMs: SSE_HEARTBEAT_INTERVAL_MS,
  pollIntervalMs: 2_000,
  fillRetryMs: 100,
};

/** Longest outage of Postgres that a stream survives. */
const MAX_READ_OUTAGE_MS = 30_000;

export type StreamDeps = Readonly<{
  db: Db;
  bus: LiveBus;
  /** Called for failed reads, which are tried again. */
  onError?: (error: unknown) => void;
  /** Takes previews as they arrive, if the stream has no other item on its way. */
  direct?: Direct<StreamItem>;
  timing?: Partial<StreamTiming>;
}>;

/**
 * Follows a session: a snapshot, then each durable event after the cursor once, in order and without gaps, with
 * previews between them. The snapshot's text of a message plus its chunks are the whole text when its `llm:response`
 * comes.
 * Ends when `signal` aborts, the consumer stops, or the session is deleted. A slow consumer delays no other: its events
 * wait in Postgres, its previews are dropped and filled in later.
 * @throws BatonError `not_found`, on iterating; the error of the database after an outage of 30 s
 */
export function openEventStream(deps: StreamDeps, request: StreamRequest): AsyncIterable<StreamItem> {
  return { [Symbol.asyncIterator]: () => openIterator(deps, request) };
}

function openIterator(deps: StreamDeps, request: StreamRequest): AsyncIterator<StreamItem> {
  const stack = new DisposableStack();
  const mailbox = stack.use(createStreamMailbox());
  const items = follow(deps, request, mailbox, stack);
  const stop = (): void => stack.dispose();
  stack.defer(() => request.signal.removeEventListener('abort', stop));
  request.signal.addEventListener('abort', stop, { once: true });
  if (request.signal.aborted) stop();
  const done = { done: true, value: undefined } as const;
  return {
    async next() {
      if (stack.disposed) return done;
      try {
        const result = await items.next();
        if (result.done === true) stop();
        return stack.disposed ? done : result;
      } catch (error) {
        const stopped = stack.disposed;
        stop();
        if (stopped) return done;
        throw error;
      }
    },
    async return() {
      stop();
      await items.return(undefined);
      return done;
    },
  };
}

async function* follow(
  deps: StreamDeps,
  request: StreamRequest,
  mailbox: StreamMailbox,
  stack: DisposableStack,
): AsyncGenerator<StreamItem, void> {
  const subscription = await deps.bus.onSession(request.sessionId, mailbox.listener);
  if (mailbox.isClosed()) return subscription[Symbol.dispose]();
  stack.use(subscription);
  const { db } = deps;
  const history = historyOf(db);
  stack.use(history.onChange(mailbox.listener.onReconnected));
  const epoch = history.epoch();
  const progress = createMessageProgress();
  const reader: Reader = { db, request, progress, isClosed: mailbox.isClosed, last: 0, epoch };
  const isLost = (request.afterEpoch ?? epoch) !== epoch;
  yield* joinSession(reader, isLost ? LOST_CURSOR : request.afterSeq);
  yield* followLive(reader, mailbox, deps);
}

async function* followLive(reader: Reader, mailbox: StreamMailbox, deps: StreamDeps): AsyncGenerator<StreamItem, void> {
  const schedule = createStreamSchedule({ ...TIMING, ...deps.timing }, pollPhase(reader.request.sessionId));
  let failingSinceMs: number | null = null;
  // True at first, for the replay up to the snapshot; and after a failed round, whose news is lost.
  let isBehind = true;
  while (!mailbox.isClosed()) {
    try {
      if ((yield* takeRound(reader, mailbox, schedule, isBehind)) === 'gone') return;
      isBehind = false;
      failingSinceMs = null;
    } catch (error) {
      isBehind = true;
      failingSinceMs ??= performance.now();
      if (performance.now() - failingSinceMs > MAX_READ_OUTAGE_MS) throw error;
      deps.onError?.(error);
    }
    if (schedule.takeHeartbeat()) yield { kind: 'heartbeat', seq: reader.last };
    await mailbox.wait(schedule.nextInMs(), (event) => sendAtOnce(reader, event, deps.direct));
  }
}

/** Sends a delta that continues the text at once: with many readers, each round of the event loop counts. */
function sendAtOnce({ progress }: Reader, event: LiveEvent, direct: Direct<StreamItem> | undefined): boolean {
  if (direct === undefined || !progress.goesOn(event) || !direct.hasRoom()) return false;
  for (const accepted of progress.accept(event)) direct.send({ kind: 'live', event: accepted });
  return true;
}

/** Takes the news once. */
async function* takeRound(
  reader: Reader,
  mailbox: StreamMailbox,
  schedule: StreamSchedule,
  isBehind: boolean,
): AsyncGenerator<StreamItem, 'gone' | 'goes-on'> {
  const { progress } = reader;
  const epoch = historyOf(reader.db).epoch();
  if (epoch !== reader.epoch) {
    // What the reader was sent may never have been, and its numbers mean other events now.
    reader.epoch = epoch;
    yield* joinSession(reader, LOST_CURSOR);
  }
  const news = mailbox.take();
  const reread = news.reread || isBehind;
  const polling = schedule.takePoll();
  const filling = schedule.takeFill();
  for (const event of news.previews.flatMap(progress.accept)) yield { kind: 'live', event };
  const wanted = progress.takeEventsWanted();
  const polled = polling ? await pollEventSeq(reader.db, reader.request.tenantId, reader.request.sessionId) : 0;
  if (polled === null) return 'gone';
  const isTold = news.committedSeq > reader.last;
  if (isTold || wanted || reread || polled > reader.last || filling) {
    yield* deliverCommitted(reader, isTold && !reread ? news.committedSeq : null);
  }
  if (reread || polling || filling) yield* fillFromStore(reader);
  schedule.planFill(progress.hasGap());
  return 'goes-on';
}
