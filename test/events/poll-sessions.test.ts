import { expect, test } from 'vitest';
import { pollEventSeq } from '../../src/events/poll-sessions.ts';
import { newId } from '../../src/platform/new-id.ts';
import { countStatements } from '../support/count-statements.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { createSessionWriter } from './session-writer.ts';

test('streams that poll in one turn share a query, and each learns of its own session alone', async () => {
  await using database = await createTestDatabase();
  const { db, seen } = countStatements(database.db);
  const { sessionId: session } = await createSessionWriter(database.db);
  const polls = [...Array.from({ length: 400 }, () => session), ...Array.from({ length: 300 }, newId)];
  const told = await Promise.all(polls.map((id) => pollEventSeq(db, 'default', id)));
  expect(new Set(told.slice(0, 400)).size).toBe(1);
  expect(told[0]).toEqual(expect.any(Number));
  expect(told.slice(400)).toEqual(Array.from({ length: 300 }, () => null));
  expect(seen.statements).toBe(1);
  expect(await pollEventSeq(db, 'another tenant', session)).toBeNull();
  await Promise.all(Array.from({ length: 501 }, () => pollEventSeq(db, 'default', newId())));
  expect(seen.statements).toBe(4);
});
