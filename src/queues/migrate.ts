import { runMigrations } from 'bullmq';
import pg from 'pg';

/** Schema of BullMQ's tables, separate from Baton's in the same database. */
export const QUEUE_SCHEMA = 'bullmq';

/** @param schema that of Baton's tables, if they have one of their own */
export const queueSchemaOf = (schema: string | undefined): string =>
  schema === undefined ? QUEUE_SCHEMA : `${schema}_queue`;

export async function migrateQueueTables(connectionString: string, schema?: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await runMigrations(client, queueSchemaOf(schema));
  } finally {
    await client.end();
  }
}
