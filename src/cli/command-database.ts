import { checkPostgres } from '../app/check-stores.ts';
import { BatonError } from '../domain/errors.ts';
import { EmbeddedPostgresError } from '../embedded/errors.ts';
import { connectionToRunning } from '../embedded/running.ts';
import { batonCommand } from '../platform/baton-command.ts';
import type { Config } from '../platform/config.ts';
import { inSchema } from '../platform/database-schema.ts';
import type { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { type Db, openDatabase } from '../store/db/database.ts';
import { migrateToLatest, pendingChanges } from '../store/db/migrate.ts';

/**
 * The configured database for one command. An embedded one is started for it, or shared with a service that runs.
 * @throws BatonError `config_invalid`; `store_unavailable` when it lacks migrations or functions, or cannot be used
 */
export async function openCommandDatabase(
  config: Config,
  stack: AsyncDisposableStack,
): Promise<Readonly<{ db: Db; connectionString: string }>> {
  const { databaseUrl, schema } = config;
  if (databaseUrl !== undefined) await checkPostgres(databaseUrl);
  const connectionString = databaseUrl ?? inSchema(await embeddedConnection(config.dataDir, stack), schema);
  const db = openDatabase({ connectionString, maxConnections: 2 });
  stack.defer(() => db.destroy());
  if (databaseUrl !== undefined) {
    if ((await pendingChanges(db)).length > 0) {
      throw new BatonError(
        'config_invalid',
        `the database lacks migrations or functions: run "${batonCommand()} migrate"`,
      );
    }
  } else {
    const { migrateQueueTables } = await import('../queues/migrate.ts');
    await migrateToLatest(db, schema);
    await migrateQueueTables(connectionString, schema);
  }
  return { db, connectionString };
}

async function embeddedConnection(dataDir: string, stack: AsyncDisposableStack): Promise<string> {
  // A command on a given database starts sooner without these and BullMQ.
  const { startEmbeddedPostgres } = await import('../embedded/launcher.ts');
  try {
    return stack.use(await startEmbeddedPostgres({ dataDir })).connectionString;
  } catch (error) {
    if (error instanceof EmbeddedPostgresError && error.code === 'EMBEDDED_POSTGRES_IN_USE') {
      return connectionToRunning(dataDir);
    }
    throw error;
  }
}
