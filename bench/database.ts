import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { migrateQueueTables } from '../src/queues/migrate.ts';
import { type Db, openDatabase } from '../src/store/database.ts';
import { migrateToLatest } from '../src/store/migrate.ts';

export type BenchDatabase = AsyncDisposable & Readonly<{ db: Db; url: string }>;

/** Creates a migrated database with a pool of this many connections. Disposing drops it. */
export async function createBenchDatabase(adminUrl: string, maxConnections = 1): Promise<BenchDatabase> {
  const name = `baton_bench_${randomBytes(6).toString('hex')}`;
  await using stack = new AsyncDisposableStack();
  await runAsAdmin(adminUrl, `create database ${name}`);
  stack.defer(() => dropDatabase(adminUrl, name));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  const db = openDatabase({ connectionString: url.href, maxConnections });
  stack.defer(() => db.destroy());
  await migrateToLatest(db);
  await migrateQueueTables(url.href);
  const owned = stack.move();
  return { db, url: url.href, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const DROP_TRIES = 20;
const DROP_PAUSE_MS = 500;
const INSUFFICIENT_PRIVILEGE = '42501';

/** Waits for an autovacuum of the database: it belongs to the superuser, and no other role can end it. */
async function dropDatabase(adminUrl: string, name: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await runAsAdmin(adminUrl, `drop database ${name} with (force)`);
    } catch (error) {
      const isVacuumed = error instanceof pg.DatabaseError && error.code === INSUFFICIENT_PRIVILEGE;
      if (!isVacuumed || tries === DROP_TRIES) throw error;
      await pause(DROP_PAUSE_MS);
    }
  }
}

async function runAsAdmin(adminUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
