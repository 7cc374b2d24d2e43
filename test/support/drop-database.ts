import { setTimeout as pause } from 'node:timers/promises';

const TRIES = 20;
const PAUSE_MS = 500;
const INSUFFICIENT_PRIVILEGE = '42501';
const OBJECT_IN_USE = '55006';

/**
 * Drops a database with its connections. An autovacuum of it belongs to the superuser, so a role that is none cannot end
 * it by `force`. The plain statement ends it for any role, but no other connection: those of the role are ended before.
 * @param runAsAdmin runs the statement on a connection to another database
 */
export async function dropDatabase(runAsAdmin: (statement: string) => Promise<unknown>, name: string): Promise<void> {
  try {
    return void (await runAsAdmin(`drop database ${name} with (force)`));
  } catch (error) {
    if (codeOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
  }
  for (let tries = 1; ; tries++) {
    await runAsAdmin(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and usename = current_user`,
    );
    try {
      return void (await runAsAdmin(`drop database ${name}`));
    } catch (error) {
      if (codeOf(error) !== OBJECT_IN_USE || tries === TRIES) throw error;
      await pause(PAUSE_MS);
    }
  }
}

/** The bench has a `pg` of its own, with a class of its own for errors. */
const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : undefined);
