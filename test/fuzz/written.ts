import { AsyncLocalStorage } from 'node:async_hooks';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import type { Db } from '../../src/store/db/database.ts';
import type { Tables } from '../../src/store/db/tables.ts';

/** A change of a tenant's rows: an insert, update or delete in a table, and its writer. */
export type Written = Readonly<{ writer: string; tenant: string; what: string }>;

/** Writers without a request: `NOBODY` through `openNotedDatabase`, `WORKERS` through any other connection. */
export const NOBODY = 'nobody';
export const WORKERS = 'workers';

const writers = new AsyncLocalStorage<string>();

/** Runs the work. All that it stores is noted as the writer's, also by work that it leaves running. */
export const asWriter = <T>(writer: string, work: () => T): T => writers.run(writer, work);

const INT8_OID = 20;

/** Opens a database as `openDatabase` does. It names the current writer to the triggers of `noteWrites`. */
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
 * Notes every change of a tenant's row with its writer, in the transaction of the change: a change that is rolled back
 * leaves no note, and other work at the same time does not matter. The last use of a key and the count of a tenant's
 * stored bytes are left out.
 * @returns a function that takes the notes that have come since its last call
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
