import { randomBytes } from 'node:crypto';
import { inject } from 'vitest';
import { type Db, openDatabase } from '../../src/store/db/database.ts';
import { dropDatabase } from '../support/drop-database.ts';
import { runAsAdmin, withDatabase } from '../support/postgres.ts';

type EmptyDatabase = AsyncDisposable &
  Readonly<{
    db: Db;
    connectionString: string;
    /** One more pool on the same database, closed with it. */
    open: () => Db;
  }>;

/** A database without any table of ours; dropped at the end. */
export async function createEmptyDatabase(): Promise<EmptyDatabase> {
  const { adminUrl } = inject('postgres');
  const name = `baton_empty_${randomBytes(6).toString('hex')}`;
  const connectionString = withDatabase(adminUrl, name);
  await using stack = new AsyncDisposableStack();
  await runAsAdmin(adminUrl, `create database ${name}`);
  stack.defer(() => dropDatabase((statement) => runAsAdmin(adminUrl, statement), name));
  const open = (): Db => {
    const db = openDatabase({ connectionString, maxConnections: 2 });
    owned.defer(() => db.destroy());
    return db;
  };
  const owned = stack.move();
  return { db: open(), connectionString, open, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
