import { afterAll, beforeAll, expect, test } from 'vitest';
import { readPublicEvents } from '../../src/events/read-public-events.ts';
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
  // One that began before the next announcement may not have seen what that one is about.
  expect(look(seq + 1)).not.toBe(first);
  // Nor what somebody knows who was told of nothing: after a lost connection, or by the clock.
  expect(look(null)).not.toBe(first);
  expect(look(seq, { afterSeq: 1 })).not.toBe(first);
  expect(await look(seq, { tenantId: 'other' })).toEqual([]);
  expect((await first).map((event) => event.seq)).toContain(seq);
  // Nothing is kept of it: what was read once is not what is there.
  expect(look(seq)).not.toBe(first);
});
