import { type Kysely, sql } from 'kysely';

/** Every version of a function of src/store/sql that was ever installed in this database. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table sql_functions (
      name text not null,
      checksum text not null,
      -- Arguments and result, as the file declares them.
      signature text not null,
      installed_at timestamptz not null default clock_timestamp(),
      -- Null: the database has this text now.
      replaced_at timestamptz,
      primary key (name, checksum)
    )`.execute(db);
  await sql`create unique index sql_functions_one_text on sql_functions (name) where replaced_at is null`.execute(db);

  // Checksums of the applied migrations.
  await sql`create table migration_texts (name text primary key, checksum text not null)`.execute(db);
}

/** Drops the functions too: their argument types belong to tables that earlier migrations drop. */
export async function down(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ name: string }>`select name from sql_functions where replaced_at is null`.execute(db);
  for (const { name } of rows) await sql`drop function ${sql.ref(name)}`.execute(db);
  await sql`drop table migration_texts`.execute(db);
  await sql`drop table sql_functions`.execute(db);
}
