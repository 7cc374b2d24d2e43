import { describe, expect, it } from 'vitest';
import { defineAgent } from '../../src/library/baton.ts';
import { openProgramPool } from '../support/postgres.ts';
import { startInProcess } from './support.ts';

async function start() {
  const started = await startInProcess((model) => ({ agents: [defineAgent({ name: 'clerk', model })] }));
  const { baton, database, simulator } = started;
  simulator.script('test', () => ({ text: 'Done.' }));
  const pool = openProgramPool({ connectionString: database.connectionString });
  await pool.query('create table orders (id text primary key)');
  const { id: session } = await baton.client.sessions.create({ agent: 'clerk' });
  return {
    ...started,
    pool,
    session,
    async [Symbol.asyncDispose]() {
      await pool.end();
      await started[Symbol.asyncDispose]();
    },
  };
}

describe('a message that is sent in a transaction of the program', () => {
  it('is stored with the row of the program, and its run begins at the commit', async () => {
    await using started = await start();
    const { baton, pool, session } = started;
    await baton.startWorker();
    const client = await pool.connect();
    await client.query('begin');
    await client.query(`insert into orders values ('order-7')`);
    const sent = await baton.sendIn(client, session, 'Refund order-7.');
    expect(await baton.client.messages(session)).toMatchObject({ messages: [] });
    await client.query('commit');
    client.release();
    expect(await baton.client.runs.result(sent.runId)).toMatchObject({ text: 'Done.', run: { status: 'completed' } });
    expect((await pool.query('select id from orders')).rows).toEqual([{ id: 'order-7' }]);
  });

  it('was never sent if the transaction is rolled back', async () => {
    await using started = await start();
    const { baton, pool, session } = started;
    const client = await pool.connect();
    await client.query('begin');
    const { runId } = await baton.sendIn(client, session, 'Refund order-7.');
    await client.query('rollback');
    client.release();
    expect((await baton.client.queue.list(session)).messages).toEqual([]);
    await expect(baton.client.runs.get(runId)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('leaves the transaction usable when it is refused', async () => {
    await using started = await start();
    const { baton, pool, session } = started;
    const client = await pool.connect();
    await client.query('begin');
    await client.query(`insert into orders values ('order-7')`);
    const unknown = session.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    await expect(baton.sendIn(client, unknown, 'Refund.')).rejects.toMatchObject({ code: 'not_found' });
    await expect(baton.sendIn(client, session, '')).rejects.toMatchObject({ code: 'invalid_request' });
    const interrupting: object = { delivery: 'interrupt' };
    await expect(baton.sendIn(client, session, 'Refund.', interrupting)).rejects.toThrow('delivery: expected steer');
    await expect(baton.sendIn(client, session, 'Refund.', { tenantId: 'ann' })).rejects.toMatchObject({
      code: 'not_found',
    });
    await client.query('commit');
    expect((await pool.query('select id from orders')).rows).toEqual([{ id: 'order-7' }]);
    await expect(baton.sendIn(client, session, 'Refund.')).rejects.toThrow('the client is in no transaction');
    client.release();
  });
});
