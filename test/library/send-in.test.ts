import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/library/baton.ts';
import { openProgramPool } from '../support/postgres.ts';
import { startInProcess } from './support.ts';

async function start() {
  const started = await startInProcess((model) => ({
    agents: [defineAgent({ name: 'clerk', model }), defineAgent({ name: 'lead', model })],
  }));
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
    const wrong: readonly (readonly [args: readonly unknown[], says: string])[] = [
      [[client, undefined, 'Refund.'], 'session: expected ses_…, key:… or { agent, key }'],
      [[undefined, session, 'Refund.'], 'client: expected a client of pg'],
      [[client, session], 'content: Invalid input: expected string or array'],
      [[client, session, 'Refund.', { output: 7 }], 'output: '],
      [[client, session, 'Refund.', { limit: {} }], 'limit: unknown field'],
      [[client, session, 'Refund.', { tenantId: null }], 'tenantId: expected the name of a tenant'],
    ];
    for (const [args, says] of wrong) {
      const sending = (baton.sendIn as (...args: readonly unknown[]) => Promise<unknown>)(...args);
      await expect(sending, says).rejects.toMatchObject({
        ...{ code: 'invalid_request', message: expect.stringContaining(says) },
      });
    }
    expect(() => baton.clientOf(undefined as never)).toThrow('tenantId: expected the name of a tenant');
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

describe('a session that is created in a transaction of the program', () => {
  it('is there with its message after the commit, and never was after a rollback', async () => {
    await using started = await start();
    const { baton, pool } = started;
    await baton.startWorker();
    const client = await pool.connect();
    const order = { agent: 'clerk', key: 'order-7', metadata: { customer: 'ann' } };
    await client.query('begin');
    await baton.sendIn(client, order, 'Refund order-7.');
    await client.query('rollback');
    expect((await baton.client.sessions.list({ key: 'order-7' })).sessions).toEqual([]);
    await client.query('begin');
    await client.query(`insert into orders values ('order-7')`);
    const sent = await baton.sendIn(client, order, 'Refund order-7.');
    expect(await baton.sendIn(client, 'key:order-7', 'At once.')).toMatchObject({ sessionId: sent.sessionId });
    await client.query('commit');
    client.release();
    expect((await baton.client.runs.result(sent.runId)).run).toMatchObject({ status: 'completed' });
    expect(await baton.client.sessions.get('key:order-7')).toMatchObject({
      ...{ id: sent.sessionId, metadata: { customer: 'ann' }, name: 'Refund order-7.' },
    });
  });

  it.each(['commit', 'rollback'] as const)(
    'is one of two that are created at once, when the first ends with %s',
    async (end) => {
      await using started = await start();
      const { baton, pool } = started;
      const [first, second] = [await pool.connect(), await pool.connect()];
      const order = { agent: 'clerk', key: 'order-7' };
      await first.query('begin');
      await second.query('begin');
      const one = await baton.sendIn(first, order, 'First.');
      const other = baton.sendIn(second, order, 'Second.');
      // The second one waits for the key.
      const waits = async () =>
        (
          await pool.query(
            `select 1 from pg_stat_activity where datname = current_database() and wait_event = 'transactionid'`,
          )
        ).rows.length;
      await expect.poll(waits).toBe(1);
      await first.query(end);
      const { sessionId } = await other;
      await second.query('commit');
      first.release();
      second.release();
      const { sessions } = await baton.client.sessions.list();
      expect(sessions.map(({ key }) => key)).toEqual(['order-7', null]);
      expect(sessions[0]?.id).toBe(sessionId);
      const { messages } = await baton.client.queue.list(sessionId);
      expect(messages).toHaveLength(end === 'commit' ? 2 : 1);
      expect(one.sessionId === sessionId).toBe(end === 'commit');
    },
  );

  it('gives way to the one that has the key, unless that has another agent', async () => {
    await using started = await start();
    const { baton, pool } = started;
    const { id } = await baton.client.sessions.create({ agent: 'clerk', key: 'order-7' });
    const client = await pool.connect();
    await client.query('begin');
    expect(await baton.sendIn(client, { agent: 'clerk', key: 'order-7' }, 'Hi')).toMatchObject({ sessionId: id });
    const refused = [
      [{ agent: 'lead', key: 'order-7' }, 'conflict'],
      [{ agent: 'nobody', key: 'order-8' }, 'agent_not_found'],
      [{ agent: 'clerk', key: '' }, 'invalid_request'],
      ['key:none', 'not_found'],
      ['order-7', 'not_found'],
    ] as const;
    for (const [session, code] of refused)
      await expect(baton.sendIn(client, session, 'Hi')).rejects.toMatchObject({ code });
    await client.query('commit');
    client.release();
  });

  it('takes what a message takes by the API: an id, a result, limits', async () => {
    await using started = await start();
    const { baton, pool, session } = started;
    const client = await pool.connect();
    const id = 'msg_0199c0ffee007000800000000000000a';
    const output = z.object({ total: z.number() });
    await client.query('begin');
    const sent = await baton.sendIn(client, session, 'Add up.', { id, output, limits: { maxSteps: 3 } });
    expect(await baton.sendIn(client, session, 'Add up.', { id })).toMatchObject({ messageId: id, runId: sent.runId });
    await expect(baton.sendIn(client, session, 'Hi', { limits: { maxSteps: 0 } })).rejects.toThrow('limits.maxSteps: ');
    await expect(baton.sendIn(client, session, 'Hi', { output: z.string() })).rejects.toThrow('output: ');
    await client.query('commit');
    client.release();
    const run = await baton.client.runs.get(sent.runId);
    expect(run).toMatchObject({ maxSteps: 3, outputFormat: { schema: { properties: { total: { type: 'number' } } } } });
  });
});
