import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { migrateToLatest } from '../../src/store/db/migrate.ts';
import { ROOT } from '../support/pasted.ts';
import { ROW_TYPES_FILE, rowTypes } from './row-types.ts';

const SCHEMA_FILE = fileURLToPath(new URL('../../migrations/schema.sql', import.meta.url));

const HEADER = `-- The schema after all migrations, with the functions of src/store/sql. Written by "npm run schema:dump"; never
-- change it here.
`;

/** Excludes the migrator's own tables. */
const OURS = `c.relnamespace = 'public'::regnamespace and c.relname not like 'kysely\\_%'`;

/** One row per statement: the `definition` of the object `name`. */
type Row = Readonly<{ name: string; definition: string }>;

const SEQUENCES = `
  select c.relname as name, format('create sequence %I', c.relname) as definition
  from pg_class c
  where c.relkind = 'S' and ${OURS} order by c.relname collate "C"`;

const DOMAINS = `
  select y.typname as name, format('create domain %I as %s constraint %I %s', y.typname,
    format_type(y.typbasetype, y.typtypmod), k.conname, pg_get_constraintdef(k.oid)) as definition
  from pg_type y join pg_constraint k on k.contypid = y.oid and k.contype = 'c'
  where y.typnamespace = 'public'::regnamespace order by y.typname collate "C"`;

const COLUMNS = `
  select c.relname as name, concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
    case a.attgenerated when 's' then 'generated always as (' || pg_get_expr(d.adbin, d.adrelid) || ') stored'
      else 'default ' || pg_get_expr(d.adbin, d.adrelid) end, case when a.attnotnull then 'not null' end) as definition
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relkind = 'r' and ${OURS} order by c.relname collate "C", a.attnum`;

/** Foreign keys come last, so that the file runs as it is. "not null" is a constraint only from Postgres 18 on. */
const CONSTRAINTS = `
  select c.relname as name, format('constraint %I %s', k.conname, pg_get_constraintdef(k.oid)) as definition
  from pg_constraint k join pg_class c on c.oid = k.conrelid
  where k.contype = any ($1) and ${OURS}
  order by c.relname collate "C", array_position(array['p', 'u', 'x', 'c', 'f'], k.contype::text), k.conname collate "C"`;

const INDEXES = `
  select i.relname as name, pg_get_indexdef(x.indexrelid) as definition
  from pg_index x join pg_class c on c.oid = x.indrelid join pg_class i on i.oid = x.indexrelid
  where ${OURS} and not exists (select from pg_constraint k where k.conindid = x.indexrelid and k.contype in ('p', 'u', 'x'))
  order by c.relname collate "C", i.relname collate "C"`;

const FUNCTIONS = `
  select p.proname as name, pg_get_functiondef(p.oid) as definition
  from pg_proc p
  where p.pronamespace = 'public'::regnamespace and p.prokind in ('f', 'p')
    and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  order by p.proname collate "C", pg_get_function_identity_arguments(p.oid) collate "C"`;

const TRIGGERS = `
  select t.tgname as name, pg_get_triggerdef(t.oid) as definition
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where not t.tgisinternal and ${OURS} order by c.relname collate "C", t.tgname collate "C"`;

/** Objects that the statements above would silently leave out. */
const NOT_DUMPED = `
  select c.relname as name, 'a relation of kind ' || c.relkind::text as definition
    from pg_class c where c.relkind not in ('r', 'i', 'S', 't', 'c') and ${OURS}
  union all select a.attname, 'an identity or virtual column'
    from pg_attribute a join pg_class c on c.oid = a.attrelid where (a.attidentity <> '' or a.attgenerated = 'v') and ${OURS}
  union all select y.typname, 'a type'
    from pg_type y left join pg_class c on c.oid = y.typrelid
    where y.typnamespace = 'public'::regnamespace and y.typtype in ('c', 'e', 'r') and (c.oid is null or c.relkind = 'c')
  union all select l.polname, 'a row security policy' from pg_policy l join pg_class c on c.oid = l.polrelid where ${OURS}
  union all select r.rulename, 'a rule' from pg_rewrite r join pg_class c on c.oid = r.ev_class
    where c.relkind = 'r' and ${OURS}
  order by 1`;

/**
 * The service's own schema as SQL for an empty database: sequences, domains, tables, indexes, foreign keys, functions, triggers.
 * It is read from the catalogs, so it needs no pg_dump and is the same on every supported version of Postgres.
 * @throws Error if the schema has an object of a kind that the dump cannot show
 */
export async function dumpSchema(connectionString: string): Promise<string> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    // It decides which names are written with their schema.
    await client.query('set search_path = public');
    const read = async (query: string, kinds?: readonly string[]): Promise<Row[]> =>
      (await client.query<Row>(query, kinds === undefined ? [] : [kinds])).rows;
    const notDumped = await read(NOT_DUMPED);
    if (notDumped.length > 0) {
      const list = notDumped.map(({ name, definition }) => `${name} (${definition})`).join(', ');
      throw new Error(`the schema dump cannot show: ${list}`);
    }
    return formatDump({
      sequences: await read(SEQUENCES),
      domains: await read(DOMAINS),
      columns: await read(COLUMNS),
      constraints: await read(CONSTRAINTS, ['p', 'u', 'x', 'c']),
      indexes: await read(INDEXES),
      foreignKeys: await read(CONSTRAINTS, ['f']),
      functions: await read(FUNCTIONS),
      triggers: await read(TRIGGERS),
    });
  } finally {
    await client.end();
  }
}

type Catalog = Readonly<
  Record<
    'sequences' | 'domains' | 'columns' | 'constraints' | 'indexes' | 'foreignKeys' | 'functions' | 'triggers',
    readonly Row[]
  >
>;

function formatDump(catalog: Catalog): string {
  const constraintsOf = Map.groupBy(catalog.constraints, (row) => row.name);
  const tables = [...Map.groupBy(catalog.columns, (row) => row.name)].map(([table, columns]) => {
    const lines = [...columns, ...(constraintsOf.get(table) ?? [])].map((row) => `  ${row.definition}`);
    return `create table ${table} (\n${lines.join(',\n')}\n);\n`;
  });
  const statement = (row: Row): string => `${row.definition};\n`;
  const sections = [
    catalog.sequences.map(statement).join(''),
    catalog.domains.map(statement).join(''),
    ...tables,
    catalog.indexes.map(statement).join(''),
    catalog.foreignKeys.map((row) => `alter table ${row.name} add ${row.definition};\n`).join(''),
    ...catalog.functions.map((row) => `${row.definition.trimEnd()};\n`),
    catalog.triggers.map(statement).join(''),
  ];
  return [HEADER, ...sections.filter((section) => section !== '')].join('\n');
}

/** A database without other users: a scratch one on the given server, or an embedded one. */
async function openScratchDatabase(serverUrl: string | undefined, stack: AsyncDisposableStack): Promise<string> {
  if (serverUrl === undefined || serverUrl === '') {
    const dataDir = mkdtempSync(path.join(tmpdir(), 'baton-schema-'));
    stack.defer(() => rmSync(dataDir, { recursive: true, force: true }));
    return stack.use(await startEmbeddedPostgres({ dataDir })).connectionString;
  }
  const admin = new pg.Client({ connectionString: serverUrl });
  await admin.connect();
  stack.defer(() => admin.end());
  const name = `baton_schema_${randomBytes(6).toString('hex')}`;
  await admin.query(`create database ${name}`);
  stack.defer(async () => void (await admin.query(`drop database ${name} with (force)`)));
  const scratch = new URL(serverUrl);
  scratch.pathname = `/${name}`;
  return scratch.href;
}

/** Writes migrations/schema.sql and the types of its rows anew. Only the server of DATABASE_URL is used, not its database. */
async function main(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const connectionString = await openScratchDatabase(process.env['DATABASE_URL'], stack);
  const db = openDatabase({ connectionString });
  stack.defer(() => db.destroy());
  await migrateToLatest(db);
  writeFileSync(SCHEMA_FILE, await dumpSchema(connectionString));
  writeFileSync(path.join(ROOT, ROW_TYPES_FILE), await rowTypes(connectionString));
  process.stdout.write(`Wrote ${SCHEMA_FILE} and ${ROW_TYPES_FILE}\n`);
}

if (import.meta.main) await main();
