import { afterAll, beforeAll, expect, test } from 'vitest';
import { readPublicEvents } from '../../src/events/stream-delivery.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { createSessionWriter, TENANT } from './session-writer.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const switched = (name: string) => ({ type: 'llm:switched' as const, data: { from: name, to: name } });

test('a look is shared by those alone who were told of the same event and are at the same place', async () => {
  const { db } = database;
  const { sessionId, append } = await createSessionWriter(db);
  const seq = await append([switched('a'), switched('b')]);
  const page = { tenantId: TENANT, sessionId, afterSeq: 0, limit: 10 };
  const look = (announcedSeq: number | null, at: Partial<typeof page> = {}) =>
    readPublicEvents(db, { ...page, ...at }, announcedSeq);
  const first = look(seq);
  expect(look(seq)).toBe(first);
  // A read that began before the next announcement may have missed the events of that one.
  const ofNext = look(seq + 1);
  // A reader without an announcement looks after a lost connection, or by the clock: it may know of more events.
  const unannounced = look(null);
  const elsewhere = look(seq, { afterSeq: 1 });
  for (const other of [ofNext, unannounced, elsewhere]) expect(other).not.toBe(first);
  expect((await look(seq, { tenantId: 'other' })).events).toEqual([]);
  expect((await first).events.map((event) => event.seq)).toContain(seq);
  // A finished read is not reused, because the stored events may have changed since.
  const again = look(seq);
  expect(again).not.toBe(first);
  // The database is closed only after all reads have ended.
  await Promise.all([ofNext, unannounced, elsewhere, again]);
});
