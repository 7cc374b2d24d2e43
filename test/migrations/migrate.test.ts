import * as fs from 'node:fs/promises';
import * as path from 'node:path';
import { sql } from 'kysely';
import { FileMigrationProvider, Migrator, NO_MIGRATIONS } from 'kysely/migration';
import { describe, expect, it } from 'vitest';
import type { Db } from '../../src/store/db/database.ts';
import { isLatest, migrateToLatest, pendingChanges } from '../../src/store/db/migrate.ts';
import { keepChecksums, refuseChangedMigrations } from '../../src/store/db/migration-texts.ts';
import { dumpSchema } from './dump-schema.ts';
import { createEmptyDatabase } from './empty-database.ts';

const migrationFolder = path.join(import.meta.dirname, '../../migrations');

/** The migrator with all its directions; the service itself only ever goes forward. */
const createMigrator = (db: Db): Migrator =>
  new Migrator({ db, provider: new FileMigrationProvider({ fs, path, migrationFolder }) });

describe('migrateToLatest', () => {
  it('changes nothing the second time', async () => {
    await using empty = await createEmptyDatabase();
    expect(await pendingChanges(empty.db)).not.toEqual([]);
    const applied = await migrateToLatest(empty.db);
    expect(await pendingChanges(empty.db)).toEqual([]);
    const before = await dumpSchema(empty.connectionString);
    expect(await migrateToLatest(empty.db)).toEqual([]);
    expect(await dumpSchema(empty.connectionString)).toBe(before);
    expect(applied).not.toEqual([]);
  });

  it('applies each migration and installs each function once when ten start at the same moment', async () => {
    await using empty = await createEmptyDatabase();
    const pending = await pendingChanges(empty.db);
    const migrators = Array.from({ length: 10 }, () => empty.open());
    const applied = await Promise.all(migrators.map((db) => migrateToLatest(db)));
    expect(applied.flat()).toEqual(pending);
  });
});

describe('a database that was made by other texts of its migrations', () => {
  const RIGHT = {
    code: 'config_invalid',
    message: expect.stringMatching(/other texts of .*T0100_\w+, .*remove the folder/),
  };
  const NEWEST = {
    code: 'config_invalid',
    message: expect.stringMatching(/other texts of \S+T0400_sql_functions, which/),
  };

  it.each([
    ['has another checksum', `update migration_texts set checksum = 'x' where name like '%T0400%'`, NEWEST],
    ['is older than checksums', 'drop table migration_texts', RIGHT],
  ])('is refused by everything that looks at it: it %s', async (_what, change, refused) => {
    await using empty = await createEmptyDatabase();
    await migrateToLatest(empty.db);
    await sql.raw(change).execute(empty.db);
    for (const look of [migrateToLatest, pendingChanges, isLatest]) {
      await expect(look(empty.db)).rejects.toMatchObject(refused);
    }
  });

  it('is told by the statements, without comments and spaces', async () => {
    const migrationOf = (text: string) => ({ up: async (db: Db) => void (await sql.raw(text).execute(db)) });
    await using empty = await createEmptyDatabase();
    await migrateToLatest(empty.db);
    await keepChecksums(empty.db, { one: migrationOf('create table a (\n  b text -- What.\n)') }, ['one']);
    const look = (text: string) => refuseChangedMigrations(empty.db, { one: migrationOf(text) }, ['one']);
    await expect(look('create table a ( b text -- Another.\n)')).resolves.toBeUndefined();
    await expect(look('create table a (b integer)')).rejects.toMatchObject({ code: 'config_invalid' });
  });
});

describe('down', () => {
  it('undoes one migration after the other, down to an empty schema, and up again everything is as it was', async () => {
    await using empty = await createEmptyDatabase();
    const migrator = createMigrator(empty.db);
    const pending = await pendingChanges(empty.db);
    const names = pending.filter((name) => !name.startsWith('baton_'));
    const dumps = [await dumpSchema(empty.connectionString)];
    for (const name of names) {
      expect((await migrator.migrateUp()).results).toMatchObject([{ migrationName: name, status: 'Success' }]);
      dumps.push(await dumpSchema(empty.connectionString));
    }
    for (const [index, name] of [...names.entries()].reverse()) {
      const { error, results } = await migrator.migrateDown();
      expect(error).toBeUndefined();
      expect(results).toMatchObject([{ migrationName: name, status: 'Success' }]);
      expect(await dumpSchema(empty.connectionString), `after the down of ${name}`).toBe(dumps[index]);
    }
    expect(await migrateToLatest(empty.db)).toEqual(pending);
    expect(await dumpSchema(empty.connectionString)).toBe(
      await fs.readFile(path.join(migrationFolder, 'schema.sql'), 'utf8'),
    );
  });

  it('goes all the way in one go', async () => {
    await using empty = await createEmptyDatabase();
    const nothing = await dumpSchema(empty.connectionString);
    await migrateToLatest(empty.db);
    expect((await createMigrator(empty.db).migrateTo(NO_MIGRATIONS)).error).toBeUndefined();
    expect(await dumpSchema(empty.connectionString)).toBe(nothing);
  });
});
