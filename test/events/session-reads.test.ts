import { afterAll, beforeAll, expect, test } from 'vitest';
import type { StreamItem } from '../../src/events/stream-item.ts';
import { countStatements } from '../support/count-statements.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type CollectingReader, hasSeq, startReader, toldOf } from './reader.ts';
import { createSessionWriter, typedText } from './session-writer.ts';
import { createUnreliableBus } from './unreliable-bus.ts';

const READERS = 200;
/** No poll within a test: each query comes from joining or catching up. */
const timing = { pollIntervalMs: 600_000, fillRetryMs: 600_000, heartbeatIntervalMs: 600_000 };

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

test('readers that join a session at once share its snapshot, its events and its text', async () => {
  const writer = await createSessionWriter(database.db);
  const { message } = await writer.startMessage();
  writer.stream(message, { type: 'text', text: 'a whole text' });
  const last = await writer.respond(message);
  const { db, seen } = countStatements(database.db);
  const deps = { db, bus: createUnreliableBus(() => 'now'), timing };
  await using stack = new AsyncDisposableStack();
  const readers = Array.from({ length: READERS }, () => stack.use(startReader(deps, writer.sessionId, 0)));
  await Promise.all(readers.map((reader) => reader.until(hasSeq(last))));
  // A query of each kind for the first of them, and one or two more for all others.
  expect(seen.statements).toBeLessThan(50);
  for (const { items } of readers) expect(textIn(items, message.publicId)).toBe('text:a whole text');
  for (const kind of ['snapshot', 'event', 'live'] as const) expect(contentsOf(readers, kind).size).toBeLessThan(10);
});

test('readers that are at the same place in a text get the same rest of it', async () => {
  const writer = await createSessionWriter(database.db);
  const { message } = await writer.startMessage();
  writer.stream(message, { type: 'text', text: 'begun' });
  await writer.persist(message);
  const bus = createUnreliableBus(() => 'now');
  const deps = { db: database.db, bus, timing };
  await using stack = new AsyncDisposableStack();
  const readers = Array.from({ length: READERS }, () => stack.use(startReader(deps, writer.sessionId, null)));
  await Promise.all(readers.map((reader) => reader.until(({ kind }) => kind === 'snapshot')));
  writer.stream(message, { type: 'text', text: ' and ended' });
  const last = await writer.respond(message);
  bus.announce(writer.sessionId, last);
  await Promise.all(readers.map((reader) => reader.until(hasSeq(last))));
  for (const { items } of readers) expect(textIn(items, message.publicId)).toBe('text:begun and ended');
  const rests = contentsOf(readers, 'live');
  for (const rest of rests) expect(rest).toMatchObject({ data: { offset: 5, content: ' and ended' } });
  expect(rests.size).toBeLessThan(10);
});

const textIn = (items: readonly StreamItem[], messageId: string): string => typedText(toldOf(items, messageId).pieces);

/** The content of the first item of a kind, for each reader. Readers that share one object share its encoding. */
const contentsOf = (readers: readonly CollectingReader[], wanted: StreamItem['kind']): ReadonlySet<unknown> =>
  new Set(readers.map(({ items }) => contentOf(items.find(({ kind }) => kind === wanted))));

function contentOf(item: StreamItem | undefined): object | undefined {
  if (item === undefined || item.kind === 'heartbeat') return undefined;
  return item.kind === 'snapshot' ? item.data : item.event;
}
