import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';

const TRIES = 20;
const PAUSE_MS = 500;
const INSUFFICIENT_PRIVILEGE = '42501';

/**
 * Drops a database with its connections. Waits for an autovacuum of it: that belongs to the superuser, and a role that is
 * none cannot end it.
 * @param runAsAdmin runs the statement on a connection to another database
 */
export async function dropDatabase(runAsAdmin: (statement: string) => Promise<unknown>, name: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await runAsAdmin(`drop database ${name} with (force)`);
      return;
    } catch (error) {
      const isVacuumed = error instanceof pg.DatabaseError && error.code === INSUFFICIENT_PRIVILEGE;
      if (!isVacuumed || tries === TRIES) throw error;
      await pause(PAUSE_MS);
    }
  }
}
