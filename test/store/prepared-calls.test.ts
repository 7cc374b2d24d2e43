import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/store/db/database.ts';
import { moveCalls, writeResponse } from '../../src/store/work/step-writes.ts';
import { createTestDatabase } from '../support/postgres.ts';

it('prepares the calls of each step once per connection, and nothing else', async () => {
  await using database = await createTestDatabase();
  const db = openDatabase({ connectionString: database.connectionString, maxConnections: 1, answerWithinMs: 30_000 });
  const fence = { runId: crypto.randomUUID(), epoch: 1, claimId: crypto.randomUUID() };
  for (let no = 0; no < 3; no++) {
    expect(await writeResponse(db, fence, { messageId: crypto.randomUUID(), parts: [] }, [])).toBeNull();
    expect(await moveCalls(db, fence, [])).toBeNull();
    await db.selectFrom('runs').select('id').where('id', '=', fence.runId).execute();
  }
  const { rows } = await sql<{ statement: string }>`
    select statement from pg_prepared_statements order by statement`.execute(db);
  await db.destroy();
  expect(rows.map(({ statement }) => /baton_\w+/.exec(statement)?.[0])).toEqual([
    'baton_move_calls',
    'baton_write_response',
  ]);
});
