import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { openSteadyConnection } from '../../src/platform/steady-connection.ts';
import { createTestDatabase } from '../support/postgres.ts';

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
