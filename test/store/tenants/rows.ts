import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../../../src/store/db/database.ts';

/** Tables whose rows belong to no tenant, and tables whose rows belong to the tenant of another row. */
const SHARED_TABLES = [
  'dead_workers',
  'history',
  'kysely_migration',
  'kysely_migration_lock',
  'model_limits',
  'provider_pauses',
  'migration_texts',
  'sql_functions',
  'token_secret',
  'schedule_looks',
  'workers',
  'write_probe',
];
const OWNED_BY: Readonly<Record<string, RawBuilder<unknown>>> = {
  console_logins: sql`(select tenant_id from api_keys where api_keys.id = row.key_id)`,
  part_chunks: sql`(select tenant_id from messages where messages.session_id = row.session_id and messages.id = row.message_id)`,
};

/** The tables with rows of tenants, each with the SQL for a row's tenant. @throws for a table of unknown ownership */
export async function findTables(db: Db): Promise<ReadonlyMap<string, RawBuilder<unknown>>> {
  const { rows } = await sql<{ name: string; hasTenant: boolean }>`
    select tables.table_name as name, exists (
      select 1 from information_schema.columns c
      where c.table_schema = tables.table_schema and c.table_name = tables.table_name and c.column_name = 'tenant_id'
    ) as "hasTenant"
    from information_schema.tables
    where table_schema = current_schema() and table_type = 'BASE TABLE' order by 1`.execute(db);
  return new Map(
    rows.flatMap(({ name, hasTenant }) => {
      if (hasTenant) return [[name, sql`row.tenant_id`] as const];
      const owner = OWNED_BY[name];
      if (owner === undefined && !SHARED_TABLES.includes(name)) throw new Error(`whose are the rows of ${name}?`);
      return owner === undefined ? [] : [[name, owner] as const];
    }),
  );
}

/** Every row that a tenant has, as text by table. */
export async function readRows(
  db: Db,
  tables: ReadonlyMap<string, RawBuilder<unknown>>,
  tenantId: string,
): Promise<ReadonlyMap<string, string>> {
  const selects = [...tables].map(
    ([name, owner]) => sql`
      select ${name}::text as name, coalesce(string_agg(row::text, E'\n' order by row::text), '') as content
      from ${sql.table(name)} row where ${owner} = ${tenantId}`,
  );
  const { rows } = await sql<{ name: string; content: string }>`${sql.join(selects, sql` union all `)}`.execute(db);
  return new Map(rows.map(({ name, content }) => [name, content]));
}

/** The kinds of rows with a tenant or a session other than that of the row to which they belong. */
export async function mixedRows(db: Db): Promise<readonly string[]> {
  const { rows } = await sql<{ what: string }>`
    select 'blob_refs of a blob' as what from blob_refs r join blobs b on b.id = r.blob_id and b.tenant_id <> r.tenant_id
    union all select 'parts' from parts p join messages m on m.session_id = p.session_id and m.id = p.message_id
      and m.tenant_id <> p.tenant_id
    ${sql.join(
      ['blob_refs', 'compactions', 'events', 'inbox', 'messages', 'parts', 'runs'].map(
        (table) => sql`union all select ${sql.lit(`${table} of a session`)} from ${sql.table(table)} r
          join sessions s on s.id = r.session_id and s.tenant_id <> r.tenant_id`,
      ),
      sql` `,
    )}
    ${sql.join(
      ['events', 'inbox', 'messages'].map(
        (table) => sql`union all select ${sql.lit(`${table} of a run`)} from ${sql.table(table)} r
          join runs on runs.id = r.run_id and runs.session_id <> r.session_id`,
      ),
      sql` `,
    )}`.execute(db);
  return rows.map(({ what }) => what);
}

const UUID = /[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/g;
/** The ids in a text, without dashes, as they are in the ids of the API. */
export const idsIn = (text: string): ReadonlySet<string> =>
  new Set((text.match(UUID) ?? []).map((id) => id.replaceAll('-', '')));

/** Everything that a value says, bytes as text. */
export function textOf(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('latin1');
  if (value instanceof Date || value === null || typeof value !== 'object') return String(value);
  if (value instanceof Map) return textOf([...value]);
  return Object.entries(value)
    .map(([key, inner]) => `${key}: ${textOf(inner)}`)
    .join('\n');
}
