import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RUN_STATUSES, RUN_TRANSITIONS, type RunStatus } from '../../src/domain/run/run.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { openRace, type Race } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** Updates the status of a new run. Null: the database accepts it; else its refusal. */
async function moveRun({ db, sessionId }: Race, from: RunStatus, to: RunStatus): Promise<string | null> {
  const id = newId();
  await db.insertInto('runs').values({ id, session_id: sessionId, status: from }).execute();
  const refusal = await sql`update runs set status = ${to} where id = ${id}`.execute(db).then(
    () => null,
    (error: Error) => error.message,
  );
  await db.deleteFrom('runs').where('id', '=', id).execute();
  return refusal;
}

describe('the status of a run in the database', () => {
  it.each(RUN_STATUSES)('goes from %s where the table of transitions says, and nowhere else', async (from) => {
    const race = await openRace(database.db);
    for (const to of RUN_STATUSES) {
      const isAllowed = from === to || RUN_TRANSITIONS[from].includes(to);
      expect(await moveRun(race, from, to)).toBe(isAllowed ? null : `a run cannot go from ${from} to ${to}`);
    }
  });
});
