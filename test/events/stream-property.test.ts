import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toText } from '../../src/domain/storable-json.ts';
import type { StreamItem } from '../../src/events/stream-item.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type CollectingReader, isEvent, publish, seqsOf, snapshotsOf, startReader, toldOf } from './reader.ts';
import {
  createSessionWriter,
  type Delta,
  type SessionWriter,
  textOf,
  typedText,
  type WrittenMessage,
} from './session-writer.ts';
import { createUnreliableBus, type Fate, type UnreliableBus } from './unreliable-bus.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

type Action =
  | { do: 'stream'; delta: Delta }
  | { do: 'persist' | 'deliver-late' | 'reconnect' | 'zombie' }
  | { do: 'join'; after: 'now' | 'beginning' | 'middle' };

type MessageScript = { actions: Action[]; end: 'respond' | 'reset' };

const delta: fc.Arbitrary<Delta> = fc.record({
  type: fc.constantFrom('text', 'text', 'reasoning'),
  text: fc.string({
    unit: fc.constantFrom('a', 'b', ' ', '\n', 'é', '語', '😀', '\u0000'),
    minLength: 1,
    maxLength: 12,
  }),
});
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('stream' as const), delta }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('persist', 'deliver-late', 'reconnect', 'zombie') }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('join' as const), after: fc.constantFrom('now', 'beginning', 'middle') }),
  },
);
const script: fc.Arbitrary<MessageScript[]> = fc.array(
  fc.record({
    actions: fc.array(action, { maxLength: 16 }),
    end: fc.constantFrom<MessageScript['end']>('respond', 'respond', 'reset'),
  }),
  { minLength: 1, maxLength: 4 },
);
const fates = fc.infiniteStream(fc.constantFrom<Fate>('now', 'now', 'now', 'twice', 'lost', 'late'));

type JoinedReader = CollectingReader & Readonly<{ cursor: number | null }>;

type Play = Readonly<{ bus: UnreliableBus; writer: SessionWriter; readers: JoinedReader[]; lastSeq: { seq: number } }>;

function join({ bus, writer, readers, lastSeq }: Play, after: 'now' | 'beginning' | 'middle'): void {
  const timing = { pollIntervalMs: 20, fillRetryMs: 4, heartbeatIntervalMs: 10 };
  const cursor = { now: null, beginning: 0, middle: Math.floor(lastSeq.seq / 2) }[after];
  const reader = startReader({ db: database.db, bus, timing }, writer.sessionId, cursor);
  readers.push({ ...reader, cursor });
}

async function act(play: Play, message: WrittenMessage, former: Written | undefined, action: Action) {
  const { bus, writer } = play;
  if (action.do === 'stream') publish(bus, writer, message, action.delta);
  if (action.do === 'persist') await writer.persist(message);
  if (action.do === 'deliver-late') bus.deliverLate();
  if (action.do === 'reconnect') bus.reconnect();
  if (action.do === 'join') join(play, action.after);
  // Its message was given up, but the worker has not noticed yet.
  if (action.do === 'zombie' && former?.end === 'reset') {
    publish(bus, writer, former.message, { type: 'text', text: 'zombie' });
  }
}

type Written = Readonly<{ message: WrittenMessage; end: MessageScript['end']; text: string }>;

async function writeMessage(
  play: Play,
  { actions, end }: MessageScript,
  former: Written | undefined,
): Promise<Written> {
  const { bus, writer, lastSeq } = play;
  const { message, seq } = await writer.startMessage();
  bus.announce(writer.sessionId, seq);
  for (const action of actions) await act(play, message, former, action);
  const written = { message, end, text: toText(typedText(message.deltas)) };
  lastSeq.seq = end === 'respond' ? await writer.respond(message) : await writer.reset(message);
  bus.announce(writer.sessionId, lastSeq.seq);
  return written;
}

function checkReader(reader: CollectingReader, messages: readonly Written[], lastSeq: number): void {
  const seqs = seqsOf(reader.items);
  const first = seqs[0] ?? lastSeq + 1;
  expect(seqs).toEqual(Array.from({ length: lastSeq - first + 1 }, (_, index) => first + index));
  expect(snapshotsOf(reader.items)).toHaveLength(1);
  for (const { message, end, text } of messages) {
    const told = toldOf(reader.items, message.publicId);
    expect(told.problems).toEqual([]);
    if (told.ended === 'response') expect(typedText(told.pieces)).toBe(text);
    if (end === 'reset') expect(toText(textOf(message.deltas)).startsWith(textOf(told.pieces))).toBe(true);
  }
}

test('whatever the bus does, every reader gets every event once and in order, and every character of a message once', async () => {
  await fc.assert(
    fc.asyncProperty(script, fates, async (messages, fate) => {
      const bus = createUnreliableBus(() => fate.next().value);
      const writer = await createSessionWriter(database.db);
      const play: Play = { bus, writer, readers: [], lastSeq: { seq: 1 } };
      await using stack = new AsyncDisposableStack();
      stack.defer(async () => void (await Promise.all(play.readers.map((reader) => reader[Symbol.asyncDispose]()))));
      join(play, 'beginning');
      const written: Written[] = [];
      for (const script of messages) written.push(await writeMessage(play, script, written.at(-1)));
      join(play, 'middle');
      const lastSeq = await writer.endRun('completed');
      bus.announce(writer.sessionId, lastSeq);
      bus.deliverLate();
      await Promise.all(play.readers.map((reader) => reader.until((item) => isLast(item, reader, lastSeq))));
      for (const reader of play.readers) checkReader(reader, written, lastSeq);
      await stack.disposeAsync();
      expect(bus.listenerCount()).toBe(0);
    }),
  );
});

/** A reader without a cursor that joined after the end gets the snapshot and nothing more. */
function isLast(item: StreamItem, { cursor }: JoinedReader, lastSeq: number): boolean {
  return isEvent('run:completed')(item) || (cursor === null && item.kind === 'snapshot' && item.data.seq >= lastSeq);
}
