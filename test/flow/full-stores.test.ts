import { Redis } from 'ioredis';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import { openDependencies } from '../../src/app/dependencies.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { hasRedisServer, startOwnPostgres, startOwnRedis } from '../faults/world/services.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase, runAsAdmin } from '../support/postgres.ts';
import { mountSmallDisk } from '../support/small-disk.ts';

/** The API on these stores, with a migrated database. */
async function startService(environment: Readonly<Record<string, string>>) {
  await using stack = new AsyncDisposableStack();
  const config = loadConfig({ BATON_PORT: '0', BATON_SIMULATOR_URL: 'http://127.0.0.1:9', ...environment });
  const agents = createCatalogue([agentSchema.parse({ name: 'tester', model: 'simulated/test' })]);
  const deps = stack.use(await openDependencies(config, { migrate: true, log: () => undefined, agents }));
  const { url } = stack.use(await startApi(deps));
  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  };
  const readiness = async () => {
    const response = await fetch(`${url}/readyz`);
    return { status: response.status, ...((await response.json()) as { checks: Record<string, { ok: boolean }> }) };
  };
  const owned = stack.move();
  return {
    post,
    createSession: () => post('/v1/sessions', { agent: 'tester', metadata: { filler: 'x'.repeat(500) } }),
    readiness,
    isReady: (ready: boolean) =>
      eventually(
        async () => {
          const found = await readiness();
          return found.status === (ready ? 200 : 503) && found;
        },
        ready ? 'it is ready' : 'it is not ready',
      ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type Service = Awaited<ReturnType<typeof startService>>;

/** The API's answer to the first session that it cannot store. */
const refusal = (service: Service) =>
  eventually(async () => {
    const answer = await service.createSession();
    return answer.status === 201 ? null : answer;
  }, 'a session is refused');

describe('a Postgres that takes no writes', () => {
  it('for its disk is full makes the process unready, is quoted in the refusal, and is well again with room', async ({
    skip,
  }) => {
    await using stack = new AsyncDisposableStack();
    const disk = await mountSmallDisk().catch((error) =>
      skip(`a small disk cannot be mounted: ${error.message.trim()}`),
    );
    stack.use(disk);
    await using postgres = await startOwnPostgres(disk.path);
    await using service = await startService({ DATABASE_URL: postgres.connectionString() });
    expect((await service.readiness()).status).toBe(200);

    disk.fill();
    const full = /^The database has no room left on its disk \(53100: .*No space left on device\)/;
    const message = expect.stringMatching(full);
    // Postgres may refuse a write of the queue before the check of Postgres itself writes for the first time.
    await eventually(async () => (await service.isReady(false)).checks['postgres']?.ok === false, 'Postgres is full');
    expect((await service.isReady(false)).checks).toMatchObject({ postgres: { ok: false, message } });
    expect(await refusal(service)).toMatchObject({
      status: 503,
      body: { code: 'store_unavailable', detail: expect.stringMatching(new RegExp(`${full.source}; try again$`)) },
    });

    disk.makeRoom();
    await service.isReady(true);
    expect((await service.createSession()).status).toBe(201);
  });

  it('for it is read-only is told from one that cannot be reached', async () => {
    await using database = await createTestDatabase();
    const name = new URL(database.connectionString).pathname.slice(1);
    const alter = (change: string) =>
      runAsAdmin(database.connectionString, `set transaction read write; alter database ${name} ${change}`);
    await using stack = new AsyncDisposableStack();
    stack.defer(() => alter('reset all'));
    const service = stack.use(await startService({ DATABASE_URL: database.connectionString }));
    await alter('set default_transaction_read_only = on');
    await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`.execute(database.db);
    const message = expect.stringMatching(
      /^The database takes no writes \(25006: cannot execute INSERT in a read-only transaction\)/,
    );
    // The first check may still meet the connections that were ended.
    await expect
      .poll(async () => (await service.isReady(false)).checks)
      .toMatchObject({ postgres: { ok: false, message } });
    expect(await refusal(service)).toMatchObject({ status: 503, body: { detail: message } });
  });
});

describe('a Redis that has no memory left', () => {
  it('makes the process unready in its own words; what is accepted meanwhile is accepted', async ({ skip }) => {
    if (!hasRedisServer()) return skip('there is no redis-server here');
    await using redis = await startOwnRedis(['--maxmemory-policy', 'noeviction']);
    await using database = await createTestDatabase();
    const url = `redis://127.0.0.1:${redis.port}`;
    await using service = await startService({ DATABASE_URL: database.connectionString, REDIS_URL: url });
    expect((await service.readiness()).status).toBe(200);

    const client = new Redis(url);
    using stack = new DisposableStack();
    stack.defer(() => client.disconnect());
    // Less memory than an empty Redis takes.
    await client.config('SET', 'maxmemory', '500kb');
    const message = expect.stringMatching(/OOM command not allowed/);
    expect((await service.isReady(false)).checks).toMatchObject({
      queue: { ok: false, message },
      postgres: { ok: true },
    });
    const { body: session } = await service.createSession();
    expect(await service.post(`/v1/sessions/${session['id']}/messages`, { content: 'Go' })).toMatchObject({
      status: 202,
    });

    await client.config('SET', 'maxmemory', '100mb');
    await service.isReady(true);
  });
});
