import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { startWordIndexer } from '../../src/recovery/word-indexer.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';

const INDEXER = fileURLToPath(new URL('index-words.ts', import.meta.url));
const MESSAGES = 500;

/** `indexer` waits for the lock of another transaction. */
const IS_HELD = sql`exists (select 1 from pg_stat_activity
  where datname = current_database() and query like '%baton_index_words(%' and wait_event_type = 'Lock')`;

test('an indexer that is killed in the middle loses no words and doubles none, and another one goes on', async () => {
  await using database = await createTestDatabase();
  const { db } = database;
  await sql`
    with begun as (
      insert into sessions (id, agent_name, agent_version, agent_snapshot, words_due_at)
      values (gen_random_uuid(), 'coder', '1', '{}', '2000-01-01') returning id
    ), said as (
      insert into messages (id, session_id, seq, role, finished_at)
      select gen_random_uuid(), begun.id, n, 'user', clock_timestamp()
        from begun, generate_series(1, ${MESSAGES}::integer) n returning id, session_id, seq
    )
    insert into parts (session_id, message_id, idx, type, content)
    select session_id, id, 0, 'text', jsonb_build_object('type', 'text', 'text', 'word' || seq) from said`.execute(db);
  // A message in the middle of the second batch is held by another transaction.
  const holding = await db.startTransaction().execute();
  await sql`
    insert into message_words (session_id, seq, tenant_id, created_at, words)
    select session_id, 300, 'default', created_at, '' from session_words`.execute(holding);
  const indexer = spawn(process.execPath, [INDEXER, database.connectionString], { stdio: 'ignore' });
  const ended = once(indexer, 'exit');
  await eventually(async () => {
    const { rows } = await sql<{ is: boolean }>`select ${IS_HELD} as is`.execute(db);
    return rows[0]?.is === true;
  }, 'the indexer is in the middle');
  indexer.kill('SIGKILL');
  await ended;
  await holding.rollback().execute();
  await using _ = startWordIndexer({ db, log: () => undefined });
  await eventually(async () => {
    const { rows } = await sql`select 1 from sessions where words_due_at is not null`.execute(db);
    return rows.length === 0;
  }, 'another one has indexed all');
  const { rows } = await sql<{ seq: string; words: string }>`
    select seq, array_to_string(array(select word from unnest(tsvector_to_array(words)) word
      where word not like 'default #%'), ' ') as words
    from message_words order by seq`.execute(db);
  expect(rows.map(({ words }) => words)).toEqual(
    Array.from({ length: MESSAGES }, (_unused, at) => `default word${at + 1}`),
  );
});
