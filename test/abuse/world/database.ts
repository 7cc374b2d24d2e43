import { randomBytes } from 'node:crypto';
import { migrateQueueTables } from '../../../src/queues/migrate.ts';
import { openDatabase } from '../../../src/store/db/database.ts';
import { migrateToLatest } from '../../../src/store/db/migrate.ts';
import { createTestKey } from '../../support/keys.ts';
import { runAsAdmin, withDatabase } from '../../support/postgres.ts';

/** The headers that authenticate a tenant. */
export type Credentials = Readonly<Record<string, string>>;

/** A migrated database with keys for three tenants; dropped when disposed. */
export type ProductDatabase = AsyncDisposable &
  Readonly<{ url: string; attacker: Credentials; accomplice: Credentials; neighbour: Credentials }>;

/** Creates it in the server of this URL. The role must be allowed to. */
export async function createDatabase(adminUrl: string): Promise<ProductDatabase> {
  await using stack = new AsyncDisposableStack();
  const name = `baton_abuse_${randomBytes(6).toString('hex')}`;
  await runAsAdmin(adminUrl, `create database ${name}`);
  // An autovacuum may block the drop; the server is removed anyway.
  stack.defer(() => runAsAdmin(adminUrl, `drop database ${name} with (force)`).catch(() => undefined));
  // The default of Postgres, which the embedded server changes: a backend goes on working after its client is gone.
  await runAsAdmin(adminUrl, `alter database ${name} set client_connection_check_interval = 0`);
  // The disk is not measured here, and this server needs no crash safety.
  await runAsAdmin(adminUrl, `alter database ${name} set synchronous_commit = off`);
  const url = withDatabase(adminUrl, name);
  await migrateQueueTables(url);
  const db = openDatabase({ connectionString: url });
  try {
    await migrateToLatest(db);
    const attacker = await createTestKey(db, 'attacker');
    const accomplice = await createTestKey(db, 'accomplice');
    const neighbour = await createTestKey(db, 'neighbour');
    const owned = stack.move();
    return {
      url,
      attacker: attacker.headers,
      accomplice: accomplice.headers,
      neighbour: neighbour.headers,
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  } finally {
    await db.destroy();
  }
}
