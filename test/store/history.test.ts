import { sql } from 'kysely';
import pg from 'pg';
import { expect, inject, it } from 'vitest';
import { openDatabase } from '../../src/store/db/database.ts';
import { beginHistory, createHistoryWatch, historyOf } from '../../src/store/db/history.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase, runAsAdmin, withDatabase } from '../support/postgres.ts';

const fail = (error: unknown): never => {
  throw error;
};

/** What a process sees that has just started. */
async function epochOf(connectionString: string): Promise<string | null> {
  const db = openDatabase({ connectionString });
  const watch = createHistoryWatch(fail);
  await (await watch.begin(db))[Symbol.asyncDispose]();
  await db.destroy();
  return watch.epoch();
}

it('all processes see the same history, and a copy of the database is another one', async () => {
  await using database = await createTestDatabase({ isNew: true });
  const epoch = await epochOf(database.connectionString);
  expect(epoch).toMatch(/^[0-9a-f]{8}$/);
  expect(await epochOf(database.connectionString)).toBe(epoch);
  await database.db.destroy();
  const { adminUrl } = inject('postgres');
  const name = new URL(database.connectionString).pathname.slice(1);
  const copy = pg.escapeIdentifier(`${name}_copy`);
  await runAsAdmin(adminUrl, `create database ${copy} template ${pg.escapeIdentifier(name)}`);
  try {
    expect(await epochOf(withDatabase(adminUrl, `${name}_copy`))).not.toBe(epoch);
  } finally {
    await runAsAdmin(adminUrl, `drop database ${copy}`);
  }
});

it('a log that has become shorter is another history, as after a restore of a disk', async () => {
  await using database = await createTestDatabase();
  const read = async (epoch: string | null, lsn: string | null) => {
    const { rows } = await sql<{ history: { epoch: string; lsn: string } }>`
      select baton_read_history(${epoch}, ${lsn}) as history`.execute(database.db);
    return rows[0]?.history ?? { epoch: '', lsn: '' };
  };
  const first = await read(null, null);
  expect((await read(first.epoch, first.lsn)).epoch).toBe(first.epoch);
  const after = await read(first.epoch, 'FFFFFF/0');
  expect(after.epoch).not.toBe(first.epoch);
  // A process that saw the end of the lost log under the epoch before changes nothing any more.
  expect((await read(first.epoch, 'FFFFFF/0')).epoch).toBe(after.epoch);
});

it('a process hears of another history on a new connection, and by itself', async () => {
  await using database = await createTestDatabase();
  const watch = createHistoryWatch(fail);
  const db = openDatabase({ connectionString: database.connectionString, onConnect: watch.readOn, maxConnections: 2 });
  const watching = await watch.begin(db);
  let changes = 0;
  const heard = historyOf(db).onChange(() => changes++);
  await beginHistory(database.db);
  // The first connection is at work, so a second one is opened.
  await db.connection().execute(async (held) => {
    await sql`select 1`.execute(held);
    await sql`select 1`.execute(db);
  });
  expect(changes).toBe(1);
  await beginHistory(database.db);
  await eventually(async () => changes === 2, 'the timer reads the history');
  heard[Symbol.dispose]();
  await watching[Symbol.asyncDispose]();
  await db.destroy();
});

it('an answer that comes after that of a later read changes nothing', async () => {
  await using database = await createTestDatabase();
  const watch = createHistoryWatch(fail);
  const db = openDatabase({ connectionString: database.connectionString, onConnect: watch.readOn, maxConnections: 2 });
  const watching = await watch.begin(db);
  const slow = new pg.Client({ connectionString: database.connectionString });
  await slow.connect();
  const answered = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const query = async (...asked: [string, unknown[]]) => {
    const answer = await slow.query(...asked);
    answered.resolve();
    await arrived.promise;
    return answer;
  };
  const reading = watch.readOn({ query } as never);
  await answered.promise;
  const epoch = await beginHistory(database.db);
  expect(await historyOf(db).readEpoch()).toBe(epoch);
  arrived.resolve();
  await reading;
  expect(watch.epoch()).toBe(epoch);
  await slow.end();
  await watching[Symbol.asyncDispose]();
  await db.destroy();
});
