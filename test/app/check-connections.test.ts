import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { checkConnections } from '../../src/app/check-connections.ts';
import { autoProcesses } from '../../src/domain/connection-budget.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { readConnectionRoom } from '../../src/store/db/connection-room.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTestService } from '../support/service.ts';

it('refuses connections that can never fit, names the setting, and warns of those that do not fit now', async () => {
  await using database = await createTestDatabase();
  const { db } = database;
  const { maxConnections, reservedConnections } = await readConnectionRoom(db);
  const allowed = maxConnections - reservedConnections;
  const logged: LogEvent[] = [];
  const check = (poolConnections: number) => {
    const environment = { REDIS_URL: 'redis://localhost', BATON_DATABASE_CONNECTIONS: String(poolConnections) };
    return checkConnections(db, loadConfig(environment), 1, (_level, event) => void logged.push(event));
  };
  await expect(check(allowed)).rejects.toMatchObject({
    code: 'config_invalid',
    message: expect.stringMatching(
      new RegExp(`^BATON_DATABASE_CONNECTIONS \\(${allowed}\\).* ${allowed + 1} connections .* allows ${allowed}$`),
    ),
  });
  // Another client: the test's admin is not the only connection of the server.
  await using other = await createTestDatabase();
  await sql`select 1`.execute(other.db);
  await check(allowed - 1);
  expect(logged).toMatchObject([{ event: 'connections_scarce', needed: allowed, allowed }]);
  await check(2);
  expect(logged.length).toBe(1);
});

it.each(availableBackends())('counts no less than a worker at work really opens, on %s', async (backend) => {
  await using service = await startTestService({ backend, environment: { BATON_DATABASE_CONNECTIONS: '3' } });
  const { db, config } = service.deps;
  service.simulator.script('test', () => ({ text: 'Here.' }));
  await service.startWorker();
  const opened = async () => {
    const { rows } = await sql<{ count: number }>`
      select count(*) as count from pg_stat_activity where datname = current_database()`.execute(db);
    return rows[0]?.count ?? 0;
  };
  const sessions = await Promise.all(Array.from({ length: 12 }, () => service.createSession()));
  const sent = await Promise.all(sessions.map((session) => service.send(session, 'Go')));
  let most = 0;
  await eventually(async () => {
    most = Math.max(most, await opened());
    const { rows } = await sql<{ left: number }>`
      select count(*) as left from runs where status <> 'completed'`.execute(db);
    return rows[0]?.left === 0;
  }, `${sent.length} runs end`);
  const needed = config.redisUrl === undefined ? 3 + 1 + 2 + 4 + 4 : 3 + 1;
  expect(most).toBeLessThanOrEqual(needed);
});

describe('the number of processes, where the settings name none', () => {
  const room = { maxConnections: 100, reservedConnections: 3, inUse: 7 };

  it.each([
    [1, 15, 1],
    [2, 15, 2],
    [16, 15, 4],
    [16, 30, 3],
    [16, 80, 1],
  ])('is by %i processors and %i connections each: %i', (processors, each, processes) => {
    expect(autoProcesses(processors, 30, each, room)).toBe(processes);
  });
});
