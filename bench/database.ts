import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { loadConfig } from '../src/runtime/config.ts';
import { type Db, openDatabase } from '../src/store/database.ts';
import { migrateToLatest } from '../src/store/migrate.ts';

const DEFAULT_URL = 'postgres://postgres@127.0.0.1:5432/postgres';

/** A migrated database of its own on the configured server, reached by one connection; dropped when disposed. */
export async function createBenchDatabase(): Promise<AsyncDisposable & Readonly<{ db: Db }>> {
  const adminUrl = loadConfig(process.env).databaseUrl ?? DEFAULT_URL;
  const name = `baton_bench_${randomBytes(6).toString('hex')}`;
  await using stack = new AsyncDisposableStack();
  await runAsAdmin(adminUrl, `create database ${name}`);
  stack.defer(() => runAsAdmin(adminUrl, `drop database ${name} with (force)`));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  const db = openDatabase({ connectionString: url.href, maxConnections: 1 });
  stack.defer(() => db.destroy());
  await migrateToLatest(db);
  const owned = stack.move();
  return { db, [Symbol.asyncDispose]: () => owned.disposeAsync() };
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
