import { describe, expect, it } from 'vitest';
import { checkPostgres } from '../../src/app/check-stores.ts';
import { hasPgbouncer, startPgbouncer } from '../support/pgbouncer.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTestService } from '../support/service.ts';

describe.runIf(hasPgbouncer())('behind a pgbouncer with its defaults', () => {
  it('the service works in session mode, its queue over Postgres too', async () => {
    await using database = await createTestDatabase();
    await using pooler = await startPgbouncer(database.connectionString, 'session');
    const environment = { DATABASE_URL: pooler.via(database.connectionString) };
    await using service = await startTestService({ backend: 'postgres', environment });
    service.simulator.script('test', () => ({ text: 'Through it.' }));
    await service.startWorker();
    const { runId } = await service.send(await service.createSession(), 'Are you there?');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
  });

  it('a start in transaction mode is refused in one sentence', async () => {
    await using database = await createTestDatabase();
    await using pooler = await startPgbouncer(database.connectionString, 'transaction');
    await expect(checkPostgres(pooler.via(database.connectionString))).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/^DATABASE_URL: Postgres at \S+ is a pooler .* pooler in session mode$/),
    });
  });
});
