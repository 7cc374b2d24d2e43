import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import { newId } from '../../src/platform/new-id.ts';
import { type Db, openDatabase } from '../../src/store/db/database.ts';
import { migrateToLatest } from '../../src/store/db/migrate.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { createTestDatabase, runAsAdmin, withDatabase } from '../support/postgres.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const clientVersion = spawnSync('pg_restore', ['--version'], { encoding: 'utf8' });
const hasPostgresClient = clientVersion.status === 0;
const clientMajor = Number(/(\d+)\./.exec(clientVersion.stdout ?? '')?.[1]);

/** `pg_dump` refuses servers that are newer than itself. */
async function isTooNew(db: Db): Promise<boolean> {
  const { rows } = await sql<{ major: number }>`
    select current_setting('server_version_num')::int / 10000 as major`.execute(db);
  return (rows[0]?.major ?? 0) > clientMajor;
}

async function insertKept(db: Db): Promise<string> {
  const id = newId();
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: {} };
  await insertSession(db, { id, tenantId: 'default', ...agent, title: 'Kept', metadata: {} });
  return id;
}

const sessionsOf = async (db: Db): Promise<unknown> => (await sql`select id, title from sessions`.execute(db)).rows;

/** The commands of the page before or after the heading of the move, in their order, with the tree in place of the installed package. */
async function commandsOf(part: 'restore' | 'move'): Promise<string[]> {
  const page = await readFile(path.join(ROOT, 'docs/restore.md'), 'utf8');
  const [restore = '', move = ''] = page.split('\n## From the embedded Postgres to your own\n');
  const text = { restore, move }[part];
  const blocks = [...text.matchAll(/^( *)```sh\n([\s\S]*?)^\1```$/gm)].map(([, , block = '']) => block);
  return blocks.map((block) => block.replaceAll('npx baton', `"${process.execPath}" "${ROOT}/src/cli/baton.ts"`));
}

it.runIf(hasPostgresClient)(
  'the commands of the page about restores bring a database back, as another history',
  async ({ skip }) => {
    await using database = await createTestDatabase({ isNew: true });
    skip(await isTooNew(database.db), 'pg_dump is older than the server');
    await using folder = await temporaryFolder();
    const base = new URL(database.connectionString);
    base.searchParams.delete('options');
    const name = `${base.pathname.slice(1)}_restored`;
    const restoredUrl = withDatabase(base.href, name);
    const sessionId = await insertKept(database.db);
    const script = (await commandsOf('restore')).join('\n').replaceAll('baton_restored', name);
    const env = {
      ...process.env,
      DATABASE_URL: base.href,
      RESTORED_URL: restoredUrl,
      BATON_AGENTS_DIR: path.join(ROOT, 'agents'),
      BATON_MODEL: 'simulated/test',
    };
    try {
      const ran = spawnSync('bash', ['-euc', script], { cwd: folder.path, env, encoding: 'utf8' });
      expect(ran.stdout + ran.stderr).toContain('The history of the database is now');
      expect(ran.status).toBe(0);
      const restored = openDatabase({ connectionString: restoredUrl });
      const rows = await sessionsOf(restored);
      await restored.destroy();
      expect(rows).toEqual([{ id: sessionId, title: 'Kept' }]);
    } finally {
      await runAsAdmin(base.href, `drop database if exists "${name}" with (force)`);
    }
  },
);

it.runIf(hasPostgresClient)('the commands of a move find the embedded Postgres, and take its data along', async () => {
  await using folder = await temporaryFolder();
  await using embedded = await startEmbeddedPostgres({ dataDir: path.join(folder.path, '.baton') });
  await using own = await startEmbeddedPostgres({ dataDir: path.join(folder.path, 'own') });
  const from = openDatabase({ connectionString: embedded.connectionString });
  await migrateToLatest(from);
  const sessionId = await insertKept(from);
  const isReadable = !(await isTooNew(from));
  await from.destroy();
  const [find = '', restore = ''] = await commandsOf('move');
  const env = {
    ...process.env,
    DATABASE_URL: own.connectionString,
    BATON_AGENTS_DIR: path.join(ROOT, 'agents'),
    BATON_MODEL: 'simulated/test',
  };
  const run = (script: string) => spawnSync('bash', ['-euc', script], { cwd: folder.path, env, encoding: 'utf8' });
  const found = run(find.replace(/^ *pg_dump .*$/m, ''));
  expect({ ...found, stdout: found.stdout.trim() }).toMatchObject({ status: 0, stdout: '0' });
  if (!isReadable) return;
  const moved = run(`${find}\n${restore}`);
  expect({ status: moved.status, stderr: moved.stderr }).toMatchObject({ status: 0 });
  const to = openDatabase({ connectionString: own.connectionString });
  const rows = await sessionsOf(to);
  await to.destroy();
  expect(rows).toEqual([{ id: sessionId, title: 'Kept' }]);
});
