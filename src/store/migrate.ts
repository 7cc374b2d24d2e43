import * as fs from 'node:fs/promises';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { FileMigrationProvider, Migrator } from 'kysely/migration';
import type { Db } from './database.ts';
import { installFunctions, pendingFunctions } from './sql-functions.ts';

const MIGRATIONS_FOLDER = fileURLToPath(new URL('../../migrations', import.meta.url));

/** Of the advisory lock that a process holds from its first migration to its last function. */
const LOCK_KEY = 3_720_114_586;

/**
 * Brings the database to the newest schema: migrations, then functions. Processes that start together take turns.
 * @returns the names of the migrations that were applied now, and of the functions that were installed or dropped
 * @throws the error of the migration or function that failed, with its name; functions are left alone then
 */
export function migrateToLatest(db: Db): Promise<string[]> {
  return db.connection().execute(async (connection) => {
    // Of the session: the migrations and the functions are a transaction each.
    await sql`select pg_advisory_lock(${LOCK_KEY})`.execute(connection);
    try {
      return [...(await applyMigrations(connection)), ...(await installFunctions(connection))];
    } finally {
      await sql`select pg_advisory_unlock(${LOCK_KEY})`.execute(connection);
    }
  });
}

/** The names of the migrations and functions that the database lacks. */
export async function pendingChanges(db: Db): Promise<string[]> {
  const migrations = await createMigrator(db).getMigrations();
  const pending = migrations.filter((migration) => migration.executedAt === undefined).map(({ name }) => name);
  return [...pending, ...(await pendingFunctions(db))];
}

async function applyMigrations(db: Db): Promise<string[]> {
  const { error, results } = await createMigrator(db).migrateToLatest();
  if (error !== undefined) {
    const failed = results?.find((result) => result.status === 'Error')?.migrationName ?? 'unknown';
    throw new Error(`migration ${failed} failed`, { cause: error });
  }
  return (results ?? []).map((result) => result.migrationName);
}

function createMigrator(db: Db): Migrator {
  return new Migrator({
    db,
    provider: new FileMigrationProvider({ fs, path, migrationFolder: MIGRATIONS_FOLDER }),
  });
}
