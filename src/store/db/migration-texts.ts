import { createHash } from 'node:crypto';
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { BatonError } from '../../domain/errors.ts';
import type { Db } from './database.ts';

type Migrations = Readonly<Record<string, Migration>>;

/** The statements of a migration as they would be sent, without comments and spaces: the same as TypeScript and built. */
async function checksumOf(migration: Migration): Promise<string> {
  const statements: string[] = [];
  const db = new Kysely<never>({
    dialect: {
      createDriver: () => new DummyDriver(),
      createAdapter: () => new PostgresAdapter(),
      createQueryCompiler: () => new PostgresQueryCompiler(),
      createIntrospector: (introspected) => new PostgresIntrospector(introspected),
    },
    log: ({ query }) => void statements.push(query.sql),
  });
  await migration.up(db);
  const text = statements.map((each) => each.replaceAll(/--.*$/gm, '').replaceAll(/\s+/g, ' ').trim()).join(';\n');
  return createHash('sha256').update(text).digest('hex');
}

/** Keeps the checksums of migrations that were applied now. */
export async function keepChecksums(db: Db, migrations: Migrations, applied: readonly string[]): Promise<void> {
  for (const name of applied) {
    const migration = migrations[name];
    if (migration === undefined) continue;
    await sql`
      insert into migration_texts (name, checksum) values (${name}, ${await checksumOf(migration)})
      on conflict (name) do update set checksum = excluded.checksum`.execute(db);
  }
}

/**
 * Names of migrations that the database has with other statements, or from before their checksums were kept.
 * @param applied names of the migrations that the database has
 */
async function changedMigrations(db: Db, migrations: Migrations, applied: readonly string[]): Promise<string[]> {
  if (applied.length === 0) return [];
  const { rows: found } = await sql<{ exists: boolean }>`
    select to_regclass(quote_ident(current_schema()) || '.migration_texts') is not null as exists`.execute(db);
  if (found[0]?.exists !== true) return [...applied];
  const { rows } = await sql<{ name: string; checksum: string }>`select name, checksum from migration_texts`.execute(
    db,
  );
  const kept = new Map(rows.map(({ name, checksum }) => [name, checksum]));
  const changed: string[] = [];
  for (const name of applied) {
    const migration = migrations[name];
    const before = kept.get(name);
    // A migration of a newer version is not known here, and a process may have died before it kept a checksum.
    if (migration === undefined || before === undefined) continue;
    if (before !== (await checksumOf(migration))) changed.push(name);
  }
  return changed;
}

/** @throws BatonError `config_invalid` that names the migrations that the database has with other statements */
export async function refuseChangedMigrations(
  db: Db,
  migrations: Migrations,
  applied: readonly string[],
): Promise<void> {
  const changed = await changedMigrations(db, migrations, applied);
  if (changed.length === 0) return;
  const message = `the database was made by other texts of ${changed.join(', ')}, which change in place until they are released`;
  const how = 'start with a new database: remove the folder .baton, or drop the database of DATABASE_URL, and migrate';
  throw new BatonError('config_invalid', `${message}: ${how}`);
}
