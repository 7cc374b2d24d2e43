import { runMigrations } from 'bullmq';
import pg from 'pg';

/** The schema of BullMQ's own tables, apart from ours in the same database. */
export const QUEUE_SCHEMA = 'bullmq';

/** Brings BullMQ's tables to the version that the installed BullMQ needs. */
export async function migrateQueueTables(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await runMigrations(client, QUEUE_SCHEMA);
  } finally {
    await client.end();
  }
}
