import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { LiveEvent, ToolInput } from '../domain/run/events.ts';
import type { SessionSnapshot } from '../domain/run/session-snapshot.ts';
import type { RequiredAction } from '../domain/transcript/required-action.ts';
import type { StreamItem } from '../events/stream-item.ts';
import { openEventStream } from '../events/subscribe.ts';
import type { Db } from '../store/db/database.ts';
import { findLastRunEvent, readEvents } from '../store/transcript/events.ts';
import { type FollowDeps, type RunRef, readMore } from './run-details.ts';
import { createEventReader, type RunUpdate, readEvent } from './run-updates.ts';

export type FollowOptions = Readonly<{
  signal: AbortSignal;
  /** Follow a waiting run only after this event; absent: the run from its beginning. */
  afterSeq?: number | undefined;
  /** The required actions of a wait that people have to answer, whom the reader waits for; absent: every wait ends it. */
  waitsFor?: (() => Promise<readonly RequiredAction[] | 'nobody'>) | undefined;
  /** Ends where the log ends when the reader joins, with the text that the model has written by then. */
  untilNow?: boolean;
}>;

/**
 * The updates of a run, from its beginning or from the wait at `afterSeq`, until it ends or waits for answers. Text
 * comes as deltas, each character once, whenever the reader joins. Ends early when `signal` aborts.
 * @throws BatonError `not_found`; the database's error if the database does not come back
 */
export async function* followRun(deps: FollowDeps, ref: RunRef, options: FollowOptions): AsyncGenerator<RunUpdate> {
  const { tenantId, sessionId } = ref;
  const afterSeq = options.afterSeq ?? ((await findLastRunEvent(deps.db, tenantId, ref, 'run:queued')) ?? 1) - 1;
  const isContinued = options.afterSeq !== undefined;
  const reading: Reading = {
    runId: formatId('run', ref.runId),
    toUpdates: createEventReader(isContinued),
    texts: createTextFilter(),
    waits: isContinued ? await waitAt(deps.db, ref, afterSeq) : { own: false, below: false },
    headSeq: 0,
    lastSeq: afterSeq,
    hasEnded: false,
    hasJoined: false,
    waitsFor: '',
  };
  for await (const item of openEventStream(deps, { tenantId, sessionId, afterSeq, signal: options.signal })) {
    yield* updatesOf(deps.db, ref, reading, item);
    if (reading.hasEnded) return;
    // In a replay the wait may be long over.
    const isWaiting = reading.waits.own || reading.waits.below;
    if (isWaiting && reading.lastSeq >= reading.headSeq && item.kind !== 'live') {
      const calls = (await options.waitsFor?.()) ?? 'nobody';
      if (calls === 'nobody') {
        return yield* readMore(deps.db, ref, { kind: 'ended', end: { status: 'requires_action' } }, true);
      }
      yield* tellWait(reading, calls);
    }
    if (options.untilNow === true && item.kind !== 'heartbeat' && reading.lastSeq >= reading.headSeq) return;
  }
}

/** Whether calls of the run itself wait, and whether calls of runs below it do. */
type Waits = { own: boolean; below: boolean };

/** The wait that this event began. */
async function waitAt(db: Db, { tenantId, sessionId }: RunRef, seq: number): Promise<Waits> {
  const [event] = await readEvents(db, tenantId, sessionId, { afterSeq: seq - 1, limit: 1 });
  const below = event?.type === 'child:requires-action';
  return { own: !below, below };
}

/** Tells of the calls that wait, unless the reader has been told of them. */
function* tellWait(reading: Reading, calls: readonly RequiredAction[]): Generator<RunUpdate> {
  const waitsFor = calls.map(({ id, kind }) => `${id} ${kind}`).join();
  if (calls.length > 0 && waitsFor !== reading.waitsFor) yield { kind: 'waiting', calls };
  reading.waitsFor = waitsFor;
}

type Reading = Readonly<{ runId: string; toUpdates: ReturnType<typeof createEventReader>; texts: Texts }> & {
  waits: Waits;
  /** The session's last event when the reader joined. */
  headSeq: number;
  lastSeq: number;
  hasEnded: boolean;
  hasJoined: boolean;
  /** The calls of the wait of which the reader was told. */
  waitsFor: string;
};

async function* updatesOf(db: Db, ref: RunRef, reading: Reading, item: StreamItem): AsyncGenerator<RunUpdate> {
  switch (item.kind) {
    case 'heartbeat':
      yield { kind: 'alive' };
      return;
    case 'live':
      yield* reading.texts.pass(item.event);
      return;
    case 'snapshot':
      // What the client was sent may never have been. It cannot take it back, so its stream ends.
      if (item.data.reset && reading.hasJoined) {
        throw new BatonError('store_unavailable', 'Postgres has gone back in time: ask for the run again');
      }
      reading.hasJoined = true;
      reading.headSeq = item.data.seq;
      reading.texts.join(item.data);
      return;
    case 'event':
      reading.lastSeq = item.event.seq;
      if (item.event.runId === reading.runId) yield* eventUpdates(db, ref, reading, readEvent(item.event));
  }
}

async function* eventUpdates(
  db: Db,
  ref: RunRef,
  reading: Reading,
  event: ReturnType<typeof readEvent>,
): AsyncGenerator<RunUpdate> {
  if (event === null) return;
  for (const update of reading.toUpdates(event, reading.lastSeq)) {
    yield* readMore(db, ref, update, reading.lastSeq >= reading.headSeq);
    if (update.kind === 'ended') reading.hasEnded = true;
  }
  yield* reading.texts.after(event);
  if (event.type === 'run:requires-action') reading.waits.own = true;
  if (event.type === 'run:answered') reading.waits.own = event.data.open > 0;
  if (event.type === 'child:requires-action') reading.waits.below = event.data.open > 0;
}

type Texts = Readonly<{
  join: (snapshot: SessionSnapshot) => void;
  /** The buffered text of a message whose beginning was just replayed. */
  after: (event: NonNullable<ReturnType<typeof readEvent>>) => Delta[];
  pass: (event: LiveEvent) => Delta[];
}>;
type Delta = Extract<RunUpdate, { kind: 'delta' | 'tool-input' }>;

/**
 * Passes on the text of messages whose beginning the reader has seen; others are known to it or belong to another run.
 * A reader that joins in mid-message gets text before the replay reaches its beginning, so that text is buffered.
 */
function createTextFilter(): Texts {
  const begun = new Set<string>();
  let early: { messageId: string; deltas: Delta[] } | null = null;
  return {
    join({ inFlight }) {
      if (inFlight === null || begun.has(inFlight.messageId)) return;
      const deltas = inFlight.chunks.map(({ chunkType, content }) => toDelta(chunkType, content));
      early = { messageId: inFlight.messageId, deltas };
    },
    after(event) {
      if (event.type !== 'step:started') return [];
      begun.add(event.data.messageId);
      if (early?.messageId !== event.data.messageId) return [];
      const { deltas } = early;
      early = null;
      return deltas;
    },
    pass(event) {
      if (event.type === 'llm:thinking') return [];
      const { messageId } = event.data;
      const delta =
        event.type === 'llm:chunk' ? toDelta(event.data.chunkType, event.data.content) : toInput(event.data);
      if (begun.has(messageId)) return [delta];
      if (early?.messageId === messageId) early.deltas.push(delta);
      return [];
    },
  };
}

const toDelta = (type: 'text' | 'reasoning', text: string): Delta => ({ kind: 'delta', type, text });

const toInput = ({ id, toolName, offset, content }: ToolInput): Delta => ({
  kind: 'tool-input',
  ...{ id, toolName, offset, text: content },
});
