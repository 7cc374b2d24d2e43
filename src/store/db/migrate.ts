import * as fs from 'node:fs/promises';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { FileMigrationProvider, Migrator } from 'kysely/migration';
import { BatonError } from '../../domain/errors.ts';
import type { Db } from './database.ts';
import { keepChecksums, refuseChangedMigrations } from './migration-texts.ts';
import { hasTheseFunctions, installFunctions, pendingFunctions } from './sql-functions.ts';

const PROVIDER = new FileMigrationProvider({
  fs,
  path,
  migrationFolder: fileURLToPath(new URL('../../../migrations', import.meta.url)),
});

/** Of the advisory lock that a process holds from its first migration to its last function. */
const LOCK_KEY = 3_720_114_586;

/**
 * Brings the database to the newest schema: migrations, then functions. Processes that start together take turns.
 * @param schema of Baton's own, which the connections look into; it is made if it is not there
 * @returns the names of the migrations that were applied now, and of the functions that were installed or dropped
 * @throws the error of the migration or function that failed, with its name; functions are left alone then. BatonError
 * `config_invalid` for a database that was made by other texts of its migrations
 */
export function migrateToLatest(db: Db, schema?: string): Promise<string[]> {
  return db.connection().execute(async (connection) => {
    // Of the session: the migrations and the functions are a transaction each.
    await sql`select pg_advisory_lock(${LOCK_KEY})`.execute(connection);
    try {
      if (schema !== undefined) await createSchema(connection, schema);
      await refuseChanged(connection);
      return [...(await applyMigrations(connection)), ...(await installFunctions(connection))];
    } finally {
      await sql`select pg_advisory_unlock(${LOCK_KEY})`.execute(connection);
    }
  });
}

/**
 * The names of the migrations and functions that the database lacks.
 * @throws BatonError `config_invalid` for a database that was made by other texts of its migrations
 */
export async function pendingChanges(db: Db): Promise<string[]> {
  await refuseChanged(db);
  return [...(await pendingMigrations(db)), ...(await pendingFunctions(db))];
}

/**
 * Whether `migrateToLatest` has nothing to do. It takes a lock and a connection without limits, which this does not.
 * @throws BatonError `config_invalid` for a database that was made by other texts of its migrations
 */
export async function isLatest(db: Db): Promise<boolean> {
  await refuseChanged(db);
  return (await pendingMigrations(db)).length === 0 && (await hasTheseFunctions(db));
}

async function pendingMigrations(db: Db): Promise<string[]> {
  const names = Object.keys(await PROVIDER.getMigrations()).toSorted();
  const applied = new Set(await appliedMigrations(db));
  return names.filter((name) => !applied.has(name));
}

/** Kysely would read the columns of every table to find its own one. */
async function appliedMigrations(db: Db): Promise<string[]> {
  const { rows: found } = await sql<{ exists: boolean }>`
    select to_regclass(quote_ident(current_schema()) || '.kysely_migration') is not null as exists`.execute(db);
  if (found[0]?.exists !== true) return [];
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  return rows.map(({ name }) => name);
}

const refuseChanged = async (db: Db): Promise<void> =>
  refuseChangedMigrations(db, await PROVIDER.getMigrations(), await appliedMigrations(db));

async function applyMigrations(db: Db): Promise<string[]> {
  const { error, results } = await (await createMigrator(db)).migrateToLatest();
  if (error !== undefined) {
    const failed = results?.find((result) => result.status === 'Error')?.migrationName ?? 'unknown';
    throw new Error(`migration ${failed} failed`, { cause: error });
  }
  const applied = (results ?? []).map((result) => result.migrationName);
  await keepChecksums(db, await PROVIDER.getMigrations(), applied);
  return applied;
}

/** Without a schema, Kysely would take the tables of another program's migrations in any schema for its own. */
async function createMigrator(db: Db): Promise<Migrator> {
  const { rows } = await sql<{ name: string | null }>`
    select coalesce(current_schema(), split_part(current_setting('search_path'), ',', 1)) as name`.execute(db);
  return new Migrator({
    db,
    provider: PROVIDER,
    ...(rows[0]?.name && { migrationTableSchema: rows[0].name }),
  });
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const NO_PRIVILEGE = '42501';

async function createSchema(db: Db, schema: string): Promise<void> {
  // "If not exists" needs the right to create schemas even where there is one.
  const { rows } = await sql<{ exists: boolean }>`select to_regnamespace(${schema}) is not null as exists`.execute(db);
  if (rows[0]?.exists === true) return;
  await sql`create schema ${sql.id(schema)}`.execute(db).catch((cause: unknown) => {
    if ((cause as Readonly<{ code?: unknown }>).code !== NO_PRIVILEGE) throw cause;
    const message = `schema: there is no schema ${schema}, and the role may not make one: "create schema ${schema} authorization ROLE"`;
    throw new BatonError('config_invalid', message, { cause });
  });
}
