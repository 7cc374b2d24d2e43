import { createOpenAI } from '@ai-sdk/openai';
import { sql } from 'kysely';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { createBaton, defineAgent } from '../../src/library/baton.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { openProgramPool } from '../support/postgres.ts';
import { startInProcess } from './support.ts';

const clerk = (schema: string) => (model: Parameters<Parameters<typeof startInProcess>[0]>[0]) => ({
  schema,
  agents: [defineAgent({ name: 'clerk', model })],
});

describe('Baton in a Postgres schema of its own', () => {
  it('works beside another one and beside tables of the program with the same names, and sees neither', async () => {
    await using started = await startInProcess(clerk('support'));
    const { baton: support, simulator, database } = started;
    simulator.script('test', () => ({ text: 'Done.' }));
    await using pool = openProgramPool({ connectionString: database.connectionString });
    const sales = await started.again({ schema: 'sales' });
    await Promise.all([support.startWorker(), sales.startWorker()]);
    const created = await Promise.all(
      [support, sales].map((baton) => baton.client.sessions.create({ agent: 'clerk' })),
    );
    const [ours, theirs] = created.map(({ id }) => id) as [string, string];
    const answers = await Promise.all([support.client.ask(ours, 'Hello.'), sales.client.ask(theirs, 'Hello.')]);
    expect(answers.map(({ text }) => text)).toEqual(['Done.', 'Done.']);
    await expect(sales.client.sessions.get(ours)).rejects.toMatchObject({ code: 'not_found' });
    await expect(support.client.sessions.get(theirs)).rejects.toMatchObject({ code: 'not_found' });
    const workers = await Promise.all([support, sales].map((baton) => baton.client.workers()));
    expect(workers.map((listed) => listed.workers.length)).toEqual([1, 1]);
    const { rows } = await pool.query('select count(*)::int as sessions from public.sessions');
    expect(rows).toEqual([{ sessions: 0 }]);
  });

  it.each(['support', undefined])('starts and works in a database that nothing has touched: %s', async (schema) => {
    await using empty = await createEmptyDatabase();
    await using simulator = await startSimulator();
    simulator.script('test', () => ({ text: 'Done.' }));
    const openai = createOpenAI({ baseURL: `${simulator.url}/v1`, apiKey: 'of the program' });
    await using baton = await createBaton({
      databaseUrl: empty.connectionString,
      ...(schema !== undefined && { schema }),
      agents: [defineAgent({ name: 'clerk', model: openai('test') })],
    });
    await baton.startWorker();
    const { id } = await baton.client.sessions.create({ agent: 'clerk' });
    expect(await baton.client.ask(id, 'Hello.')).toMatchObject({ text: 'Done.' });
    const { rows } = await sql<{ schema: string }>`
      select distinct schemaname as schema from pg_tables
      where schemaname not in ('pg_catalog', 'information_schema') order by 1`.execute(empty.db);
    expect(rows.map((row) => row.schema)).toEqual(
      schema === undefined ? ['bullmq', 'public'] : [schema, `${schema}_queue`],
    );
  });

  it('takes messages in transactions of the program, which goes on to find its own tables', async () => {
    await using started = await startInProcess(clerk('support'));
    const { baton, simulator, database } = started;
    simulator.script('test', () => ({ text: 'Done.' }));
    await baton.startWorker();
    const { id } = await baton.client.sessions.create({ agent: 'clerk' });
    const client = new pg.Client({ connectionString: database.connectionString });
    await client.connect();
    await client.query('create schema shop; set search_path = shop; create table orders (id text)');
    await client.query('begin');
    const { runId } = await baton.sendIn(client, id, 'Refund order-7.');
    await client.query(`insert into orders values ('order-7')`);
    await expect(baton.sendIn(client, id, '')).rejects.toMatchObject({ code: 'invalid_request' });
    await client.query('commit');
    expect((await client.query('select id from orders')).rows).toEqual([{ id: 'order-7' }]);
    await client.end();
    expect(await baton.client.runs.result(runId)).toMatchObject({ text: 'Done.' });
  });

  it.each(['public', 'pg_own', 'support_queue', 'Support', 'a-b', 'a"b', '', 'x'.repeat(41)])(
    'the name %j is refused',
    async (schema) => {
      const refused = createBaton({ schema, agents: [defineAgent({ name: 'clerk', model: 'openai/gpt-5.4' })] });
      await expect(refused).rejects.toThrow('schema: a name of a-z');
    },
  );
});
