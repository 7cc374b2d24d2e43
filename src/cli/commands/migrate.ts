import { parseArgs } from 'node:util';
import { checkPostgres } from '../../app/check-stores.ts';
import { startEmbeddedPostgres } from '../../embedded/launcher.ts';
import { loadConfig } from '../../platform/config.ts';
import { inSchema } from '../../platform/database-schema.ts';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { migrateQueueTables } from '../../queues/migrate.ts';
import { openDatabase } from '../../store/db/database.ts';
import { migrateToLatest } from '../../store/db/migrate.ts';

export const usage = `baton migrate   (npm run migrate)

Brings the database of DATABASE_URL, else the embedded one, up to date.`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  parseArgs({ args: [...args] });
  const config = loadConfig(environment);
  if (config.databaseUrl !== undefined) await checkPostgres(config.databaseUrl);
  await using stack = new AsyncDisposableStack();
  const databaseUrl =
    config.databaseUrl ??
    inSchema(stack.use(await startEmbeddedPostgres({ dataDir: config.dataDir })).connectionString, config.schema);
  const db = openDatabase({ connectionString: databaseUrl });
  stack.defer(() => db.destroy());
  const applied = await migrateToLatest(db, config.schema);
  await migrateQueueTables(databaseUrl, config.schema);
  console.log(applied.length === 0 ? 'The database is up to date.' : `Applied: ${applied.join(', ')}`);
  return 0;
}
