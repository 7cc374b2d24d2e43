import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { createTestDatabase } from '../support/postgres.ts';

it('a transaction that goes on after a failed statement rejects, and leaves nothing', async () => {
  await using database = await createTestDatabase();
  const { db } = database;
  await sql`create table kept (id int primary key)`.execute(db);
  const work = db.transaction().execute(async (tx) => {
    await sql`insert into kept values (1)`.execute(tx);
    await sql`insert into kept values (1)`.execute(tx).catch(() => undefined);
    return 'done';
  });
  await expect(work).rejects.toMatchObject({ name: 'AbortedTransactionError' });
  const { rows } = await sql`select id from kept`.execute(db);
  await sql`drop table kept`.execute(db);
  expect(rows).toEqual([]);
});
