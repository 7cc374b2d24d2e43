import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { dropDatabase } from './drop-database.ts';
import { runAsAdmin, withDatabase } from './postgres.ts';

/**
 * Databases that tests have used and emptied again, because to create and drop one takes as long as most tests do. Each
 * spare one is a file with its name in a folder that all processes of a test run share: the process that removes the
 * file owns the database.
 */
export type DatabasePool = Readonly<{ adminUrl: string; templateName: string; spareFolder: string; shape: string }>;

/** @param templateName a migrated database without a connection */
export async function createDatabasePool(adminUrl: string, templateName: string): Promise<DatabasePool> {
  const spareFolder = await mkdtemp(path.join(tmpdir(), 'baton-databases-'));
  const shape = await withClient(withDatabase(adminUrl, templateName), readShape);
  return { adminUrl, templateName, spareFolder, shape };
}

export async function destroyDatabasePool(pool: DatabasePool): Promise<void> {
  for (let name = await takeSpare(pool); name !== null; name = await takeSpare(pool)) await drop(pool, name);
  await rm(pool.spareFolder, { recursive: true });
  await drop(pool, pool.templateName);
}

/** A database as the template is: a spare one, or a new copy. */
export async function takeDatabase(pool: DatabasePool): Promise<string> {
  const spare = await takeSpare(pool);
  return spare ?? createDatabase(pool);
}

export async function createDatabase(pool: DatabasePool): Promise<string> {
  const name = newName();
  await runAsAdmin(pool.adminUrl, `create database ${name} template ${pool.templateName}`);
  return name;
}

/**
 * Ends every connection to the database, renames it so that clients with the old name cannot get in, and empties it for
 * the next test. A database with another shape than the template is dropped.
 */
export async function giveDatabaseBack(pool: DatabasePool, name: string): Promise<void> {
  const emptied = newName();
  const admin = await openAdmin(pool.adminUrl);
  // A vacuum may be at work there, which only a superuser may end. Postgres itself ends it for the rename.
  await admin.query(
    `select pg_terminate_backend(pid, 10000) from pg_stat_activity
     where datname = $1 and backend_type = 'client backend'`,
    [name],
  );
  await admin.query(`alter database ${name} rename to ${emptied}`);
  const isLikeNew = await withClient(withDatabase(pool.adminUrl, emptied), async (client) => {
    await empty(client);
    return (await readShape(client)) === pool.shape;
  });
  if (isLikeNew) await writeFile(path.join(pool.spareFolder, emptied), '');
  else await drop(pool, emptied);
}

let opened: Promise<pg.Client> | null = null;

/**
 * One connection for all test files of this process. It does not keep the process alive, and a lost one is replaced.
 */
function openAdmin(adminUrl: string): Promise<pg.Client> {
  opened ??= (async () => {
    const client = new pg.Client({ connectionString: adminUrl });
    const forget = (): void => {
      opened = null;
    };
    client.on('error', forget);
    await client.connect().catch((error: unknown) => {
      forget();
      throw error;
    });
    // The types of pg lack `unref`.
    (client as pg.Client & { unref(): void }).unref();
    return client;
  })();
  return opened;
}

async function drop({ adminUrl }: DatabasePool, name: string): Promise<void> {
  await dropDatabase((statement) => runAsAdmin(adminUrl, statement), name);
}

const newName = () => `baton_test_${randomBytes(6).toString('hex')}`;

async function takeSpare({ spareFolder }: DatabasePool): Promise<string | null> {
  for (const name of await readdir(spareFolder)) {
    const taken = await unlink(path.join(spareFolder, name)).then(
      () => true,
      () => false,
    );
    if (taken) return name;
  }
  return null;
}

async function withClient<T>(connectionString: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Catalogs of definitions: a change of a definition writes a new row into one of them. */
const CATALOGS = ['pg_attribute', 'pg_constraint', 'pg_index', 'pg_proc', 'pg_trigger', 'pg_db_role_setting'];
/** Tables with rows that the migrations have written. */
const SEEDED = ['kysely_migration', 'kysely_migration_lock', 'sql_functions', 'migration_texts', 'bullmq.migration'];

/** Twice the size of a new database: deleted rows take room until a vacuum, and plans depend on the tables' sizes. */
const MAX_BYTES = 20_000_000;

/** A fingerprint of everything except rows that a test may change. It shows whether a test has changed any of it. */
async function readShape(client: pg.Client): Promise<string> {
  const definitions = CATALOGS.map((catalog) => {
    const counted =
      catalog === 'pg_attribute' ? "where attrelid not in (select oid from pg_class where relkind = 'S')" : '';
    return `select '${catalog}', count(*)::text || ' ' || max(xmin::text::bigint) from ${catalog} ${counted}`;
  });
  const size = `select 'is small', (pg_database_size(current_database()) < ${MAX_BYTES})::text`;
  const seeds = SEEDED.map(
    (table) => `select '${table}', md5(string_agg(t::text, ',' order by t::text)) from ${table} t`,
  );
  const { rows } = await client.query([...definitions, ...seeds, size].join(' union all '));
  return JSON.stringify(rows);
}

/** Removes every row that the template does not have, and lets every sequence begin anew. */
async function empty(client: pg.Client): Promise<void> {
  const { rows: tables } = await client.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname in ('public', 'bullmq') and not format('%s.%s', schemaname, tablename) = any($1)
       and pg_relation_size(format('%I.%I', schemaname, tablename)::regclass) > 0`,
    [SEEDED.map((table) => (table.includes('.') ? table : `public.${table}`))],
  );
  await client.query('set synchronous_commit = off');
  if (tables.length > 0) await removeRows(client, tables);
  await client.query(
    `select setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) from pg_sequences
     where last_value is not null`,
  );
}

/** Foreign keys are not checked in either way: every table that refers to these is among them, or empty. */
async function removeRows(client: pg.Client, tables: ReadonlyArray<{ name: string }>): Promise<void> {
  const { rows } = await client.query("select has_parameter_privilege('session_replication_role', 'set') as may");
  // To delete few rows is many times faster than `truncate`, which makes new files of every table and index. But not
  // every role may switch foreign keys off.
  const statement =
    rows[0]?.may === true
      ? `set session_replication_role = replica; ${tables.map(({ name }) => `delete from ${name};`).join(' ')}`
      : `truncate ${tables.map(({ name }) => name).join(', ')} cascade`;
  await client.query(statement);
}
