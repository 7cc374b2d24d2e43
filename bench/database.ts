import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { migrateQueueTables } from '../src/queues/migrate.ts';
import { type Db, openDatabase } from '../src/store/db/database.ts';
import { migrateToLatest } from '../src/store/db/migrate.ts';
import { dropDatabase } from '../test/support/drop-database.ts';
import type { Services } from './services.ts';

export type BenchDatabase = AsyncDisposable & Readonly<{ db: Db; url: string }>;

/** Creates a migrated database with a pool of this many connections. Disposing drops it. */
export async function createBenchDatabase(
  { postgresUrl: adminUrl, templateName }: Pick<Services, 'postgresUrl' | 'templateName'>,
  maxConnections = 1,
): Promise<BenchDatabase> {
  const name = `baton_bench_${randomBytes(6).toString('hex')}`;
  await using stack = new AsyncDisposableStack();
  await runAsAdmin(adminUrl, `create database ${name} template ${templateName ?? 'template1'}`);
  stack.defer(() => dropDatabase((statement) => runAsAdmin(adminUrl, statement), name));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  const db = openDatabase({ connectionString: url.href, maxConnections });
  stack.defer(() => db.destroy());
  if (templateName === undefined) {
    await migrateToLatest(db);
    await migrateQueueTables(url.href);
  }
  const owned = stack.move();
  return { db, url: url.href, [Symbol.asyncDispose]: () => owned.disposeAsync() };
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
