import pg from 'pg';
import { inject } from 'vitest';
import { type Db, openDatabase } from '../../src/store/db/database.ts';
import { createDatabase, giveDatabaseBack, takeDatabase } from './database-pool.ts';

export type TestDatabase = AsyncDisposable & Readonly<{ db: Db; connectionString: string }>;

/**
 * An empty, migrated database of its own. Connections that are still open at the end are cut off.
 * @param isNew no test has used it before: the indexes of used databases still have deleted rows
 */
export async function createTestDatabase({ isNew = false } = {}): Promise<TestDatabase> {
  const pool = inject('postgres');
  const name = await (isNew ? createDatabase(pool) : takeDatabase(pool));
  const connectionString = withoutFlushes(withDatabase(pool.adminUrl, name));
  const db = openDatabase({ connectionString });
  return {
    db,
    connectionString,
    async [Symbol.asyncDispose]() {
      await db.destroy();
      await giveDatabaseBack(pool, name);
    },
  };
}

/**
 * A pool as a program has one. Its connections may still be closing when their database is dropped, which is no
 * failure.
 */
export function openProgramPool(options: pg.PoolConfig): pg.Pool & AsyncDisposable {
  const pool = new pg.Pool(options);
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return Object.assign(pool, { [Symbol.asyncDispose]: async () => (pool.ended ? undefined : pool.end()) });
}

/** Turns off the wait for the disk at commits: this server loses no power, and a test makes thousands of commits. */
function withoutFlushes(url: string): string {
  const changed = new URL(url);
  changed.searchParams.set('options', '-csynchronous_commit=off');
  return changed.href;
}

export async function runAsAdmin(adminUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

export function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}
