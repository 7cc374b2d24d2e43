import { runMigrations } from 'bullmq';
import pg from 'pg';

/** Schema of BullMQ's tables, separate from Baton's in the same database. */
export const QUEUE_SCHEMA = 'bullmq';

export async function migrateQueueTables(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await runMigrations(client, QUEUE_SCHEMA);
  } finally {
    await client.end();
  }
}
