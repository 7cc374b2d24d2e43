import { runMigrations } from 'bullmq';
import pg from 'pg';
import { applySettings, splitSettings } from '../platform/postgres-settings.ts';

/** Schema of BullMQ's tables, separate from Baton's in the same database. */
export const QUEUE_SCHEMA = 'bullmq';

/** @param schema that of Baton's tables, if they have one of their own */
export const queueSchemaOf = (schema: string | undefined): string =>
  schema === undefined ? QUEUE_SCHEMA : `${schema}_queue`;

export async function migrateQueueTables(connectionString: string, schema?: string): Promise<void> {
  const own = splitSettings(connectionString);
  const client = new pg.Client({ connectionString: own.connectionString });
  await client.connect();
  try {
    await applySettings(client, own.settings);
    await runMigrations(client, queueSchemaOf(schema));
  } finally {
    await client.end();
  }
}
