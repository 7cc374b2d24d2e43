import { setImmediate as turn } from 'node:timers/promises';
import { sql } from 'kysely';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { openSteadyConnection } from '../../src/platform/steady-connection.ts';
import { createTestDatabase, runAsAdmin } from '../support/postgres.ts';

describe('a steady connection', () => {
  it('is asked nothing while it is at an answer, which pg will not allow any more', async () => {
    const warnings: string[] = [];
    const onWarning = ({ message }: Error): void => void warnings.push(message);
    process.on('warning', onWarning);
    await using database = await createTestDatabase();
    await using connection = await openSteadyConnection({
      connectionString: database.connectionString,
      applicationName: 'baton-test',
      pingIntervalMs: 1,
      onError: () => undefined,
    });
    const slow = 'select pg_sleep($1)';
    await Promise.all([connection.query(slow, [0.05]), connection.query(slow, [0]), connection.query(slow, [0])]);
    await turn();
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  });
});

it("a host's limit for idle sessions does not end a connection that only listens", async () => {
  await using database = await createTestDatabase();
  const url = new URL(database.connectionString);
  url.searchParams.delete('options');
  const name = pg.escapeIdentifier(url.pathname.slice(1));
  await runAsAdmin(database.connectionString, `alter database ${name} set idle_session_timeout = '20ms'`);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => runAsAdmin(database.connectionString, `alter database ${name} reset idle_session_timeout`));
  const errors: unknown[] = [];
  await using listener = await openSteadyConnection({
    connectionString: url.href,
    applicationName: 'test-listener',
    onError: (error) => errors.push(error),
  });
  // Five times the limit, in the words of the same server.
  await sql`select pg_sleep(0.1)`.execute(database.db);
  await listener.query('select 1', []);
  expect(errors).toEqual([]);
});

it('that ends as soon as it is open is opened again with growing pauses', async () => {
  await using database = await createTestDatabase();
  const openedAtMs: number[] = [];
  await using _listener = await openSteadyConnection({
    connectionString: database.connectionString,
    applicationName: 'test-flapping',
    onUpAgain: () => {
      openedAtMs.push(performance.now());
      void end();
    },
    onError: () => undefined,
  });
  const end = () =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'test-flapping'`.execute(
      database.db,
    );
  const startedMs = performance.now();
  await end();
  await expect.poll(() => openedAtMs.length).toBeGreaterThan(7);
  // At least half of 50, 100, 200, … ms.
  const lastedMs = performance.now() - startedMs;
  expect(openedAtMs.length).toBeLessThan(2 + Math.log2(1 + lastedMs / 25));
});
