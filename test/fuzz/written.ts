import { AsyncLocalStorage } from 'node:async_hooks';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import type { Db } from '../../src/store/database.ts';
import type { Tables } from '../../src/store/tables.ts';

/** Rows of a tenant that were inserted, changed or deleted, by who did it. */
export type Written = Readonly<{ writer: string; tenant: string; what: string }>;

/** Who writes over a database of `openNotedDatabase` without being asked to, and who over any other one. */
export const NOBODY = 'nobody';
export const WORKERS = 'workers';

const writers = new AsyncLocalStorage<string>();

/** Whatever is written in this work, and in all that it leaves running, is the writer's. */
export const asWriter = <T>(writer: string, work: () => T): T => writers.run(writer, work);

const INT8_OID = 20;

/** A database as `openDatabase` opens it, which tells the triggers of `noteWrites` who writes. */
export function openNotedDatabase(connectionString: string): Db {
  const getTypeParser: typeof pg.types.getTypeParser = (oid, format) =>
    oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format);
  const pool = new pg.Pool({ connectionString, types: { getTypeParser } });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  const noted = {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await pool.connect();
      await client.query("select set_config('fuzz.writer', $1, false)", [writers.getStore() ?? NOBODY]);
      return client;
    },
  };
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: noted }) });
}

/**
 * From now on every change of a row that belongs to a tenant is noted in its own transaction, with who made
 * it: what was rolled back is not noted, and it does not matter who else is at work. The note of a key's use
 * and the count of what a tenant has stored are not what this is about.
 * @returns what takes the notes that have come since
 */
export async function noteWrites(db: Db): Promise<() => Promise<readonly Written[]>> {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.columns
    where column_name = 'tenant_id' and table_schema = 'public' and table_name not in ('api_keys', 'stored_bytes') order by 1`.execute(
    db,
  );
  if (tables.length <= 8) throw new Error('the tables of tenants were not found');
  await sql`create table fuzz_writes (writer text not null, tenant text not null, what text not null)`.execute(db);
  await sql`
    create function fuzz_note_write() returns trigger language plpgsql as $$
    declare v_tenant text;
    begin
      if tg_op = 'DELETE' then v_tenant := old.tenant_id; else v_tenant := new.tenant_id; end if;
      if tg_op = 'UPDATE' and to_jsonb(old) is not distinct from to_jsonb(new) then return null; end if;
      insert into fuzz_writes values (coalesce(nullif(current_setting('fuzz.writer', true), ''), ${sql.lit(WORKERS)}),
        v_tenant, lower(tg_op) || ' ' || tg_table_name);
      return null;
    end $$`.execute(db);
  for (const { name } of tables) {
    await sql`create trigger fuzz_note after insert or update or delete on ${sql.table(name)}
      for each row execute function fuzz_note_write()`.execute(db);
  }
  return async () => {
    const { rows } = await sql<Written>`
      with taken as (delete from fuzz_writes returning *) select distinct writer, tenant, what from taken`.execute(db);
    return rows;
  };
}
