import { sql } from 'kysely';
import type pg from 'pg';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openQueuePool, type QueuePool } from '../../src/queues/queue-pool.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';

/** More than a call waits before the pool grows, and less than a call may take. */
const A_WHILE_MS = 1_000;

let stack: AsyncDisposableStack;
let database: TestDatabase;
let pool: QueuePool;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  database = stack.use(await createTestDatabase());
  const { connectionString } = database;
  pool = stack.use(openQueuePool({ connectionString, schema: 'bullmq', maxConnections: 2, answerWithinMs: 60_000 }));
  // The time passes as the test says: how long a call really waits depends on the machine.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(async () => {
  vi.useRealTimers();
  await stack.disposeAsync();
});

const pidOf = async (): Promise<unknown> => (await pool.query('select pg_backend_pid() as pid')).rows[0]?.['pid'];

it('opens one connection for calls that come together', async () => {
  const pids = await Promise.all(Array.from({ length: 8 }, pidOf));
  expect(new Set(pids).size).toBe(1);
});

it('opens a further connection for a call that waits, and no more than it may', async () => {
  const first = await pool.connect();
  const connecting = pool.connect();
  vi.advanceTimersByTime(A_WHILE_MS);
  const second = await connecting;
  const third = pidOf();
  vi.advanceTimersByTime(A_WHILE_MS);
  const { rows } = await first.query(
    `select count(*)::int as count from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend'`,
  );
  expect(rows).toEqual([{ count: 2 }]);
  for (const client of [first, second]) client.release();
  expect(await third).toEqual(expect.any(Number));
});

it('finds a job by its key, also in a table that Postgres knows to be empty', async () => {
  await pool.query('vacuum analyze bullmq.job');
  const { rows } = await pool.query("explain select state from bullmq.job where queue = 'steps' and id = '1'");
  expect(rows[0]).toEqual({ 'QUERY PLAN': expect.stringContaining('Index Scan using job_pkey') });
});

it('outlives an idle connection that dies while no queue listens, and opens another one', async () => {
  const client = (await pool.connect()) as pg.PoolClient;
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  client.once('end', resolve);
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  client.release();
  await sql`select pg_terminate_backend(${rows[0]?.pid}::integer)`.execute(database.db);
  await ended;
  expect(await pidOf()).not.toBe(rows[0]?.pid);
});
