import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { createTestDatabase, runAsAdmin, withDatabase } from '../support/postgres.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const hasPostgresClient = spawnSync('pg_restore', ['--version']).status === 0;

/** The commands of the page, in their order, with the tree in place of the installed package. */
async function commandsOf(page: string): Promise<string[]> {
  const text = await readFile(path.join(ROOT, 'docs', page), 'utf8');
  const blocks = [...text.matchAll(/^( *)```sh\n([\s\S]*?)^\1```$/gm)].map(([, , block = '']) => block);
  return blocks.map((block) => block.replaceAll('npx baton', `"${process.execPath}" "${ROOT}/src/cli/baton.ts"`));
}

it.runIf(hasPostgresClient)(
  'the commands of the page about restores bring a database back, as another history',
  async () => {
    await using database = await createTestDatabase({ isNew: true });
    await using folder = await temporaryFolder();
    const base = new URL(database.connectionString);
    base.searchParams.delete('options');
    const name = `${base.pathname.slice(1)}_restored`;
    const restoredUrl = withDatabase(base.href, name);
    const sessionId = newId();
    const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: {} };
    await insertSession(database.db, { id: sessionId, tenantId: 'default', ...agent, title: 'Kept', metadata: {} });
    const script = (await commandsOf('restore.md')).join('\n').replaceAll('baton_restored', name);
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
      const { rows } = await sql`select id, title from sessions`.execute(restored);
      await restored.destroy();
      expect(rows).toEqual([{ id: sessionId, title: 'Kept' }]);
    } finally {
      await runAsAdmin(base.href, `drop database if exists "${name}" with (force)`);
    }
  },
);
