import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { type BatonOptions, createBaton, defineAgent } from '../../src/library/baton.ts';
import { createTestDatabase, openProgramPool } from '../support/postgres.ts';
import { startInProcess } from './support.ts';

const clerk = defineAgent({ name: 'clerk', model: 'openai/gpt-5.4' });

const SETTINGS = `select current_setting('search_path') as path, current_setting('statement_timeout') as timeout,
  current_setting('default_transaction_isolation') as isolation`;

describe('Baton with the pool of the program', () => {
  it('works by its connections, gives them back as they were, and leaves the pool open', async () => {
    await using database = await createTestDatabase();
    await using pool = openProgramPool({ connectionString: database.connectionString, max: 4 });
    pool.on('connect', (client) => {
      void client.query(
        `set search_path = shop; set statement_timeout = 777; set default_transaction_isolation = serializable`,
      );
    });
    await using started = await startInProcess((model) => ({
      pool,
      databaseUrl: undefined,
      schema: 'support',
      agents: [defineAgent({ name: 'clerk', model })],
    }));
    const { baton, simulator } = started;
    simulator.script('test', () => ({ text: 'Done.' }));
    await baton.startWorker();
    const { id } = await baton.client.sessions.create({ agent: 'clerk' });
    expect((await baton.client.ask(id, 'Hello.')).text).toBe('Done.');
    expect((await baton.readiness()).ready).toBe(true);
    expect(pool.totalCount).toBeGreaterThan(0);
    await baton.stop();
    expect(pool.idleCount).toBe(pool.totalCount);
    const clients = await Promise.all(Array.from({ length: pool.totalCount }, () => pool.connect()));
    for (const client of clients) {
      const { rows } = await client.query(SETTINGS);
      expect(rows).toEqual([{ path: 'shop', timeout: '777ms', isolation: 'serializable' }]);
      expect(client.listenerCount('error')).toBe(1);
      client.release();
    }
    const { rows } = await pool.query('select count(*)::int as runs from support.runs');
    expect(rows).toEqual([{ runs: 1 }]);
  });

  const REFUSED: readonly (readonly [what: string, pool: unknown, says: string])[] = [
    ['what is no pool', { connect: true }, 'pool: expected a Pool of pg 8'],
    ['a pool of one connection', new pg.Pool({ max: 1 }), 'pool: its max is 1; Baton needs 2 connections or more'],
    ['a pool with ssl', new pg.Pool({ ssl: { rejectUnauthorized: false } }), 'cannot take over ssl from the pool'],
    ['a pool with a changing password', new pg.Pool({ password: async () => 'x' }), 'cannot take over password'],
  ];

  it.each(REFUSED)('%s is refused', async (_what, pool, says) => {
    await expect(createBaton({ pool, agents: [clerk] } as BatonOptions)).rejects.toThrow(says);
  });

  it('a pool of another database than that of the settings is refused', async () => {
    await using first = await createTestDatabase();
    await using second = await createTestDatabase();
    await using pool = openProgramPool({ connectionString: second.connectionString });
    const opened = createBaton({ pool, databaseUrl: first.connectionString, agents: [clerk] });
    await expect(opened).rejects.toThrow('pool: it leads to the database');
  });
});
