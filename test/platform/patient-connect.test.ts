import { randomBytes, randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { patientConnect } from '../../src/platform/patient-connect.ts';
import { createJobQueues } from '../../src/queues/bullmq-queues.ts';
import { openQueuePool, type QueuePool } from '../../src/queues/queue-pool.ts';
import { openDatabase, openLentDatabase } from '../../src/store/db/database.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase, runAsAdmin, type TestDatabase } from '../support/postgres.ts';

const role = `baton_few_${randomBytes(6).toString('hex')}`;
const stack = new AsyncDisposableStack();
let database: TestDatabase;
/** Connections as a role that Postgres gives few of. */
let url: string;

const allow = (connections: number) =>
  runAsAdmin(database.connectionString, `alter role ${role} connection limit ${connections}`);

async function mayMakeRoles(): Promise<boolean> {
  const client = new pg.Client({ connectionString: inject('postgres').adminUrl });
  await client.connect();
  const { rows } = await client.query(
    'select 1 from pg_roles where rolname = current_user and (rolsuper or rolcreaterole)',
  );
  await client.end();
  return rows.length > 0;
}

beforeAll(async () => {
  if (!(await mayMakeRoles())) return;
  database = stack.use(await createTestDatabase());
  await runAsAdmin(database.connectionString, `create role ${role} login password '${role}'`);
  stack.defer(() => runAsAdmin(database.connectionString, `drop role ${role}`));
  const changed = new URL(database.connectionString);
  changed.username = role;
  changed.password = role;
  changed.search = '';
  url = changed.href;
});
afterAll(() => stack.disposeAsync());

/** How many connections it would open now. */
const mostOf = (pool: QueuePool & { options?: pg.PoolConfig }): number => pool.options?.max ?? 0;

/** A pool that counts its logins. */
function openPool(max: number) {
  const logins = { count: 0 };
  class CountedClient extends pg.Client {
    constructor(options?: pg.ClientConfig) {
      super(options);
      logins.count++;
    }
  }
  const pool = new pg.Pool({ connectionString: url, max, connectionTimeoutMillis: 60_000, Client: CountedClient });
  pool.on('error', () => undefined);
  return Object.assign(pool, { logins, [Symbol.asyncDispose]: () => pool.end() });
}

describe.runIf(await mayMakeRoles())('a pool whose Postgres gives no further connection', () => {
  it('answers every query with those that it has', async () => {
    await allow(3);
    const db = openDatabase({ connectionString: url, maxConnections: 10, answerWithinMs: 60_000 });
    const ask = async () => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid, pg_sleep(0.01)`.execute(db);
      return rows[0]?.pid;
    };
    const pids = await Promise.all(Array.from({ length: 60 }, ask)).finally(() => db.destroy());
    expect(pids).toHaveLength(60);
    expect(new Set(pids).size).toBeLessThanOrEqual(3);
  });

  it('of a program is waited for, too', async () => {
    await allow(3);
    await using pool = openPool(10);
    const onConnectionError = () => undefined;
    const options = { connectionString: url, answerWithinMs: 60_000, onConnectionError };
    // One connection of the three is Baton's own while it compares the databases.
    const db = await openLentDatabase(pool, options);
    const asked = Array.from({ length: 30 }, () => sql`select pg_sleep(0.01)`.execute(db));
    expect(await Promise.all(asked)).toHaveLength(30);
    await db.destroy();
  });

  it('of the queues makes their calls wait for one that it has, or for the first one', async () => {
    await allow(1);
    await using pool = openQueuePool({
      connectionString: url,
      schema: 'bullmq',
      maxConnections: 4,
      answerWithinMs: 60_000,
    });
    using _listener = pool.addListener();
    const first = await pool.connect();
    const asked = Promise.all(Array.from({ length: 20 }, () => pool.query('select pg_backend_pid() as pid')));
    await Promise.race([asked, eventually(async () => mostOf(pool) === 1, 'the pool has met the refusal')]);
    first.release();
    const pids = (await asked).map(({ rows }) => rows[0]?.['pid']);
    expect(new Set(pids).size).toBe(1);
  });

  it('of the queues takes jobs once Postgres gives it a first one', async () => {
    const rights = [
      'usage on schema bullmq',
      'all on all tables in schema bullmq',
      'all on all sequences in schema bullmq',
    ];
    const mayUse = rights.map((right) => `grant ${right} to ${role}`).join(';');
    await runAsAdmin(database.connectionString, mayUse);
    stack.defer(() => runAsAdmin(database.connectionString, `drop owned by ${role}`));
    await allow(0);
    await using queues = createJobQueues({ backend: 'postgres', connectionString: url, log: () => undefined });
    const job = { runId: randomUUID(), kind: 'step', no: 1, dispatch: 1 } as const;
    const adding = queues.add([job]);
    await allow(1);
    await adding;
    expect(await queues.stateOf(job)).toBe('waiting');
  });

  it('opens more again when Postgres gives them', async () => {
    await allow(1);
    await using pool = openPool(4);
    const connect = patientConnect(pool, 60_000);
    const first = await connect();
    const waiting = connect();
    await eventually(async () => pool.options.max === 1, 'the pool has met the refusal');
    await allow(4);
    first.release();
    (await waiting).release();
    const grown = async () => {
      const clients = await Promise.all([connect(), connect(), connect()]);
      for (const client of clients) client.release();
      return pool.totalCount >= 3;
    };
    await eventually(grown, 'the pool has grown again');
  });

  it('waits for the first one while there is none', async () => {
    await allow(0);
    await using pool = openPool(4);
    const connecting = patientConnect(pool, 60_000)();
    await eventually(async () => pool.logins.count >= 2, 'the pool has tried again');
    await allow(2);
    (await connecting).release();
  });

  it('says so after its time, and has tried no more than once in a while for all callers', async () => {
    await allow(0);
    await using pool = openPool(4);
    const connect = patientConnect(pool, 600);
    const startedMs = performance.now();
    const refused = await Promise.allSettled(Array.from({ length: 50 }, connect));
    const tookMs = performance.now() - startedMs;
    for (const one of refused) {
      expect(one).toMatchObject({
        reason: {
          code: 'store_unavailable',
          message: `Postgres gave no further connection, and it has none within 600 ms (too many connections for role "${role}")`,
        },
      });
    }
    expect(pool.logins.count).toBeLessThanOrEqual(50 + tookMs / 250 + 1);
  });
});
