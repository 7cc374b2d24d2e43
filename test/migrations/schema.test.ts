import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { migrateToLatest } from '../../src/store/db/migrate.ts';
import { ROOT } from '../support/pasted.ts';
import { dumpSchema } from './dump-schema.ts';
import { createEmptyDatabase } from './empty-database.ts';
import { ROW_TYPES_FILE, rowTypes } from './row-types.ts';

const FOLDER = path.join(import.meta.dirname, '../../migrations');
const FUNCTIONS_FOLDER = path.join(import.meta.dirname, '../../src/store/sql');
const readSchemaFile = (): Promise<string> => readFile(path.join(FOLDER, 'schema.sql'), 'utf8');

describe('schema.sql', () => {
  it('and the types of rows are what migrations and functions make of an empty database (else: npm run schema:dump)', async () => {
    await using empty = await createEmptyDatabase();
    await migrateToLatest(empty.db);
    expect(await dumpSchema(empty.connectionString)).toBe(await readSchemaFile());
    expect(await rowTypes(empty.connectionString)).toBe(await readFile(path.join(ROOT, ROW_TYPES_FILE), 'utf8'));
  });

  it('is the same on the Postgres that is started where none is configured', async () => {
    await using stack = new AsyncDisposableStack();
    const dataDir = await mkdtemp(path.join(tmpdir(), 'baton-schema-'));
    stack.defer(() => rm(dataDir, { recursive: true, force: true }));
    const { connectionString } = stack.use(await startEmbeddedPostgres({ dataDir }));
    const db = openDatabase({ connectionString });
    stack.defer(() => db.destroy());
    await migrateToLatest(db);
    expect(await dumpSchema(connectionString)).toBe(await readSchemaFile());
  });

  it('makes the same schema when it is run in an empty database', async () => {
    await using empty = await createEmptyDatabase();
    await sql.raw(await readSchemaFile()).execute(empty.db);
    expect(await dumpSchema(empty.connectionString)).toBe(await readSchemaFile());
  });

  it.each([
    ['a view', 'create view busy_sessions as select id from sessions', 'busy_sessions'],
    ['a type', `create type mood as enum ('calm')`, 'mood'],
    ['an identity column', 'alter table runs add n integer generated always as identity', 'n'],
    ['a row security policy', 'create policy own_rows on sessions using (true)', 'own_rows'],
  ])('is not written without %s', async (_kind, statement, name) => {
    await using empty = await createEmptyDatabase();
    await migrateToLatest(empty.db);
    await sql.raw(statement).execute(empty.db);
    await expect(dumpSchema(empty.connectionString)).rejects.toThrow(`the schema dump cannot show: ${name} (`);
  });
});

describe('every file of migrations/ and src/store/sql/', () => {
  it('is applied, in the order of the names, and nothing else', async () => {
    await using empty = await createEmptyDatabase();
    const migrations = (await readdir(FOLDER)).filter((file) => file !== 'schema.sql').sort();
    const functions = (await readdir(FUNCTIONS_FOLDER)).sort();
    const names = [...migrations, ...functions].map((file) => path.parse(file).name);
    expect(await migrateToLatest(empty.db)).toEqual(names);
  });
});
