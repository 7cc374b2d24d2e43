import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { openDependencies } from '../../src/app/dependencies.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { Db } from '../../src/store/db/database.ts';
import { hasTheseFunctions, installFunctions, pendingFunctions } from '../../src/store/db/sql-functions.ts';
import { createTestDatabase } from '../support/postgres.ts';

type Functions = AsyncDisposable &
  Readonly<{
    db: Db;
    connectionString: string;
    /** A copy of src/store/sql, to be changed. */
    folder: string;
    fileOf: (name: string) => string;
    change: (name: string, find: string, replace: string) => Promise<void>;
  }>;

/** A database with all functions, and a copy of their files. */
async function createFunctions(): Promise<Functions> {
  await using stack = new AsyncDisposableStack();
  const { db, connectionString } = stack.use(await createTestDatabase());
  const folder = await mkdtemp(path.join(tmpdir(), 'baton-functions-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await cp(path.join(import.meta.dirname, '../../src/store/sql'), folder, { recursive: true });
  const owned = stack.move();
  const fileOf = (name: string): string => path.join(folder, `${name}.sql`);
  return {
    db,
    connectionString,
    folder,
    fileOf,
    async change(name, find, replace) {
      const text = await readFile(fileOf(name), 'utf8');
      expect(text).toContain(find);
      await writeFile(fileOf(name), text.replace(find, replace));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const ID = '00000000-0000-4000-8000-000000000001';

const publicId = async (db: Db): Promise<string | undefined> =>
  (await sql<{ id: string }>`select baton_public_id('run', ${ID}) as id`.execute(db)).rows[0]?.id;

/** Of each function of that name: its arguments, and the row of the catalog, which every installation writes anew. */
const readInstalled = async (db: Db, name: string): Promise<ReadonlyArray<{ arguments: string; row: string }>> =>
  (
    await sql<{ arguments: string; row: string }>`
      select pg_get_function_identity_arguments(oid) as arguments, xmin::text as row from pg_proc
      where proname = ${name}`.execute(db)
  ).rows;

describe('installFunctions', () => {
  it('installs a function whose file has changed, and no other one', async () => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    const untouched = await readInstalled(db, 'baton_claim_run');
    expect(await installFunctions(db, folder)).toEqual([]);
    await functions.change('baton_public_id', `'_'`, `'-'`);
    expect(await publicId(db)).toBe('run_00000000000040008000000000000001');
    expect(await installFunctions(db, folder)).toEqual(['baton_public_id']);
    expect(await publicId(db)).toBe('run-00000000000040008000000000000001');
    expect(await installFunctions(db, folder)).toEqual([]);
    expect(await readInstalled(db, 'baton_claim_run')).toEqual(untouched);
  });

  it('installs an earlier text again', async () => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    await functions.change('baton_public_id', `'_'`, `'-'`);
    await installFunctions(db, folder);
    expect(await installFunctions(db)).toEqual(['baton_public_id']);
    expect(await publicId(db)).toBe('run_00000000000040008000000000000001');
    expect(await installFunctions(db)).toEqual([]);
  });

  it('drops a function whose file is gone', async () => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    await rm(functions.fileOf('baton_probe_write'));
    expect(await installFunctions(db, folder)).toEqual(['baton_probe_write (dropped)']);
    expect(await readInstalled(db, 'baton_probe_write')).toEqual([]);
    expect(await installFunctions(db, folder)).toEqual([]);
    expect(await installFunctions(db)).toEqual(['baton_probe_write']);
  });

  it.each([
    ['arguments', '(p_prefix text, p_id uuid)', '(p_prefix text, p_id uuid, p_more text)'],
    ['result', 'returns text', 'returns varchar'],
  ])('leaves one function where its %s have changed', async (_what, find, replace) => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    await functions.change('baton_public_id', find, replace);
    expect(await installFunctions(db, folder)).toEqual(['baton_public_id']);
    expect(await readInstalled(db, 'baton_public_id')).toHaveLength(1);
  });

  it('replaces a function of the same signature in place, so that a session that uses it finds it', async () => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    const readOid = async () =>
      (await sql<{ oid: number }>`select 'baton_public_id'::regproc::oid as oid`.execute(db)).rows;
    const before = await readOid();
    await functions.change('baton_public_id', 'returns text\nlanguage', 'returns  text\n  language');
    expect(await installFunctions(db, folder)).toEqual(['baton_public_id']);
    expect(await readOid()).toEqual(before);
  });

  it('changes nothing where one function is wrong, and names it', async () => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    await rm(functions.fileOf('baton_append_events'));
    await functions.change('baton_view', 'select', 'selekt');
    await expect(installFunctions(db, folder)).rejects.toThrow('function baton_view could not be installed');
    expect(await readInstalled(db, 'baton_append_events')).toHaveLength(1);
    expect(await installFunctions(db)).toEqual([]);
  });

  it('refuses a file that makes a function of another name', async () => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    await functions.change('baton_view', 'function baton_view', 'function baton_look');
    await expect(installFunctions(db, folder)).rejects.toThrow('baton_view.sql must begin with');
  });
});

describe('pendingFunctions', () => {
  it('names what the database has never had, so that an older version still starts after a newer one was installed', async () => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    expect(await pendingFunctions(db)).toEqual([]);
    await functions.change('baton_public_id', `'_'`, `'-'`);
    expect(await pendingFunctions(db, folder)).toEqual(['baton_public_id']);
    await installFunctions(db, folder);
    expect(await pendingFunctions(db, folder)).toEqual([]);
    expect(await pendingFunctions(db)).toEqual([]);
  });
});

describe('hasTheseFunctions', () => {
  it('is told from a newer text, an earlier one and a function whose file is gone', async () => {
    await using functions = await createFunctions();
    const { db, folder } = functions;
    expect(await hasTheseFunctions(db, folder)).toBe(true);
    await functions.change('baton_public_id', `'_'`, `'-'`);
    expect(await hasTheseFunctions(db, folder)).toBe(false);
    await installFunctions(db, folder);
    expect([await hasTheseFunctions(db, folder), await hasTheseFunctions(db)]).toEqual([true, false]);
    await rm(functions.fileOf('baton_probe_write'));
    expect(await hasTheseFunctions(db, folder)).toBe(false);
  });
});

it('a start that may migrate installs the texts of its own version again, after those of a newer one', async () => {
  await using stack = new AsyncDisposableStack();
  const functions = stack.use(await createFunctions());
  await functions.change('baton_public_id', `'_'`, `'-'`);
  await installFunctions(functions.db, functions.folder);
  const config = loadConfig({ DATABASE_URL: functions.connectionString });
  const agents = createCatalogue([]);
  stack.use(await openDependencies(config, { migrate: true, log: () => undefined, agents }));
  expect(await publicId(functions.db)).toBe('run_00000000000040008000000000000001');
});
