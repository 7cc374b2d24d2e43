import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { runNode } from '../deploy/process.ts';
import { createTestDatabase } from '../support/postgres.ts';

const retention = (databaseUrl: string, ...args: string[]) =>
  runNode(['src/cli/baton.ts', 'retention', ...args], {
    cwd: process.cwd(),
    environment: { DATABASE_URL: databaseUrl },
  }).ended;

describe('npm run retention', () => {
  it('says what it would remove, and removes it when it is told to', async () => {
    await using database = await createTestDatabase();
    const { db, connectionString } = database;
    const agent = { agentName: 'a', agentVersion: '1', agentSnapshot: {} };
    await insertSession(db, { id: newId(), tenantId: 'default', ...agent, title: null, metadata: {} });
    await sql`
      update sessions set created_at = clock_timestamp() - interval '13 hours',
        updated_at = clock_timestamp() - interval '13 hours'`.execute(db);
    const dry = await retention(connectionString, '--older-than', '12h', '--dry-run');
    expect(dry).toEqual({
      code: 0,
      output: 'Would remove 1 sessions, 0 events, 0 blobs, 0 audit entries, 0 failed jobs.\n',
    });
    expect((await retention(connectionString, '--older-than', '1d')).output).toContain('Removed 0 sessions');
    const done = await retention(connectionString, '--older-than', '12h');
    expect(done.output).toContain('"event":"retention_applied"');
    expect(done.output).toContain('Removed 1 sessions');
    expect(await db.selectFrom('sessions').select('id').execute()).toEqual([]);
  });

  it.each([[[]], [['--older-than', '30']], [['--older-than', '0d']], [['--older-than', '-1d']], [['--all']]])(
    'refuses %j',
    async (args) => {
      await using database = await createTestDatabase();
      const { code, output } = await retention(database.connectionString, ...args);
      expect(code).toBe(2);
      expect(output).toContain('npm run -s baton -- retention --older-than 30d');
    },
  );
});
