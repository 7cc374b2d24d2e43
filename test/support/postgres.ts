import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import { type Db, openDatabase } from '../../src/store/database.ts';

export type TestDatabase = AsyncDisposable & Readonly<{ db: Db; connectionString: string }>;

/** A database of its own, copied from the migrated template; dropped with everything that is still connected to it. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { adminUrl, templateName } = inject('postgres');
  const name = `baton_test_${randomBytes(6).toString('hex')}`;
  await runAsAdmin(adminUrl, `create database ${name} template ${templateName}`);
  const connectionString = withDatabase(adminUrl, name);
  const db = openDatabase({ connectionString });
  return {
    db,
    connectionString,
    async [Symbol.asyncDispose]() {
      await db.destroy();
      await runAsAdmin(adminUrl, `drop database ${name} with (force)`);
    },
  };
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
