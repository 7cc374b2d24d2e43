import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import type { Db, Tx } from './database.ts';

const FUNCTIONS_FOLDER = fileURLToPath(new URL('../sql', import.meta.url));

/** A file of the folder. `checksum` covers its text, `signature` is the part that callers depend on. */
type FunctionFile = Readonly<{ name: string; text: string; checksum: string; signature: string }>;

type StoredText = Readonly<{ name: string; checksum: string; signature: string; replacedAt: Date | null }>;

/**
 * Installs each function whose file differs from the text in the database, and drops those whose file is gone. The
 * caller must keep other processes from doing the same.
 * @returns the names of the installed and dropped functions
 * @throws Error that names the function that failed; then all stay as they were
 */
export function installFunctions(db: Db, folder = FUNCTIONS_FOLDER): Promise<string[]> {
  return db.transaction().execute(async (tx) => {
    const files = await readFiles(folder);
    const current = (await readStored(tx)).filter(({ replacedAt }) => replacedAt === null);
    const removed = current.filter(({ name }) => files.every((file) => file.name !== name));
    for (const { name } of removed) await remove(tx, name);
    const changed = files.flatMap((file) => {
      const before = current.find(({ name }) => name === file.name);
      return before?.checksum === file.checksum ? [] : [{ file, before }];
    });
    for (const { file, before } of changed) {
      await install(tx, file, before).catch((cause: unknown) => {
        throw new Error(`function ${file.name} could not be installed`, { cause });
      });
    }
    return [...removed.map(({ name }) => `${name} (dropped)`), ...changed.map(({ file }) => file.name)];
  });
}

/**
 * Functions whose text the database has never had. A text that it had before was replaced by a newer version, which may
 * run beside this one.
 */
export async function pendingFunctions(db: Db, folder = FUNCTIONS_FOLDER): Promise<string[]> {
  const { rows } = await sql<{ exists: boolean }>`select to_regclass('sql_functions') is not null as exists`.execute(
    db,
  );
  const stored = rows[0]?.exists === true ? await readStored(db) : [];
  const isStored = (file: FunctionFile): boolean =>
    stored.some(({ name, checksum }) => name === file.name && checksum === file.checksum);
  return (await readFiles(folder)).filter((file) => !isStored(file)).map(({ name }) => name);
}

/** Whether `installFunctions` has nothing to do. Needs the table of functions. */
export async function hasTheseFunctions(db: Db, folder = FUNCTIONS_FOLDER): Promise<boolean> {
  const current = (await readStored(db)).filter(({ replacedAt }) => replacedAt === null);
  const checksums = new Map(current.map(({ name, checksum }) => [name, checksum]));
  const files = await readFiles(folder);
  return files.length === checksums.size && files.every(({ name, checksum }) => checksums.get(name) === checksum);
}

async function readFiles(folder: string): Promise<FunctionFile[]> {
  const names = (await readdir(folder)).filter((file) => file.endsWith('.sql')).toSorted();
  return Promise.all(
    names.map(async (file) => {
      const { name } = path.parse(file);
      const text = await readFile(path.join(folder, file), 'utf8');
      return {
        name,
        text,
        checksum: createHash('sha256').update(text).digest('hex'),
        signature: signatureIn(text, name),
      };
    }),
  );
}

/** From the arguments to the result, white space collapsed. @throws Error if the file defines another function */
function signatureIn(text: string, name: string): string {
  const [, created, signature = ''] = /^create or replace function (\w+)(\(.*?)\s+language /ms.exec(text) ?? [];
  if (created !== name)
    throw new Error(`${name}.sql must begin with "create or replace function ${name}(…) … language"`);
  return signature.replaceAll(/\s+/g, ' ');
}

async function readStored(db: Db | Tx): Promise<readonly StoredText[]> {
  const { rows } = await sql<StoredText>`
    select name, checksum, signature, replaced_at as "replacedAt" from sql_functions`.execute(db);
  return rows;
}

/** Functions refer to each other by name only when they run, so the order of drops does not matter. */
async function remove(tx: Tx, name: string): Promise<void> {
  await sql`drop function if exists ${sql.ref(name)}`.execute(tx);
  await sql`delete from sql_functions where name = ${name}`.execute(tx);
}

/**
 * Postgres replaces a function only if its signature is the same. With other arguments it would create a second one.
 */
async function install(tx: Tx, file: FunctionFile, before: StoredText | undefined): Promise<void> {
  if (before !== undefined && before.signature !== file.signature) {
    await sql`drop function if exists ${sql.ref(file.name)}`.execute(tx);
  }
  await sql.raw(file.text).execute(tx);
  await sql`
    update sql_functions set replaced_at = clock_timestamp() where name = ${file.name} and replaced_at is null`.execute(
    tx,
  );
  await sql`
    insert into sql_functions (name, checksum, signature) values (${file.name}, ${file.checksum}, ${file.signature})
    on conflict (name, checksum) do update set installed_at = clock_timestamp(), replaced_at = null`.execute(tx);
}
