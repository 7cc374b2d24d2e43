import { randomBytes } from 'node:crypto';
import { migrateQueueTables } from '../../../src/queues/migrate.ts';
import { openDatabase } from '../../../src/store/database.ts';
import { migrateToLatest } from '../../../src/store/migrate.ts';
import { createTestKey } from '../../support/keys.ts';
import { runAsAdmin, withDatabase } from '../../support/postgres.ts';

/** The headers by which the API knows the tenant of a request. */
export type Credentials = Readonly<Record<string, string>>;

/** A migrated database with keys for three tenants; dropped when disposed. */
export type ProductDatabase = AsyncDisposable &
  Readonly<{ url: string; attacker: Credentials; accomplice: Credentials; neighbour: Credentials }>;

/** Creates it in the server of this URL, whose role may do that. */
export async function createDatabase(adminUrl: string): Promise<ProductDatabase> {
  await using stack = new AsyncDisposableStack();
  const name = `baton_abuse_${randomBytes(6).toString('hex')}`;
  await runAsAdmin(adminUrl, `create database ${name}`);
  // A vacuum that is under way there cannot be ended, and all goes with the server anyway.
  stack.defer(() => runAsAdmin(adminUrl, `drop database ${name} with (force)`).catch(() => undefined));
  // The default of Postgres, which the embedded server changes: a backend works on after its client has given up.
  await runAsAdmin(adminUrl, `alter database ${name} set client_connection_check_interval = 0`);
  // The machine's disk is not measured, and this server never loses its power.
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
