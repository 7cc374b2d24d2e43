import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { GenericContainer } from 'testcontainers';
import { clusterDirOf, readCredentials } from '../../src/embedded/cluster.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import { runAsAdmin } from './postgres.ts';

export type Services = AsyncDisposable &
  Readonly<{ postgresUrl: string; redisUrl: string | null; report: readonly string[] }>;

/**
 * Finds what the tests run against, in this order: the environment (BATON_TEST_DATABASE_URL, BATON_TEST_REDIS_URL),
 * services on this machine, Testcontainers where Docker runs, the embedded Postgres. BATON_TEST_SERVICES=embedded skips
 * to the last.
 */
export async function findServices(): Promise<Services> {
  const stack = new AsyncDisposableStack();
  const embeddedOnly = process.env['BATON_TEST_SERVICES'] === 'embedded';
  const docker = !embeddedOnly && existsSync('/var/run/docker.sock');
  const postgres = (embeddedOnly ? null : await localPostgres()) ??
    (docker ? await containerPostgres(stack) : null) ?? { url: await embeddedPostgres(stack), from: 'embedded' };
  const redis = embeddedOnly ? null : ((await localRedis()) ?? (docker ? await containerRedis(stack) : null));
  const report = [
    `tests: Postgres ${postgres.from}`,
    redis === null
      ? 'tests: no Redis here (none local, no Docker): the project redis is skipped, all else runs on Postgres'
      : `tests: Redis ${redis.from}`,
  ];
  return {
    postgresUrl: postgres.url,
    redisUrl: redis?.url ?? null,
    report,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

type Found = Readonly<{ url: string; from: string }>;

async function localPostgres(): Promise<Found | null> {
  const given = process.env['BATON_TEST_DATABASE_URL'];
  const url = given ?? 'postgres://postgres@127.0.0.1:5432/postgres';
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  try {
    await client.connect();
    const { rows } = await client.query('select rolcreatedb from pg_roles where rolname = current_user');
    await client.end();
    return rows[0]?.rolcreatedb === true ? { url, from: given === undefined ? 'local' : 'given' } : null;
  } catch (error) {
    if (given !== undefined) throw new Error('BATON_TEST_DATABASE_URL does not answer', { cause: error });
    return null;
  }
}

async function localRedis(): Promise<Found | null> {
  const given = process.env['BATON_TEST_REDIS_URL'];
  const url = given ?? 'redis://127.0.0.1:6379';
  const redis = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    await redis.ping();
    return { url, from: given === undefined ? 'local' : 'given' };
  } catch (error) {
    if (given !== undefined) throw new Error('BATON_TEST_REDIS_URL does not answer', { cause: error });
    return null;
  } finally {
    redis.disconnect();
  }
}

async function containerPostgres(stack: AsyncDisposableStack): Promise<Found> {
  const container = await new GenericContainer('postgres:17.11-alpine')
    .withEnvironment({ POSTGRES_HOST_AUTH_METHOD: 'trust' })
    .withExposedPorts(5432)
    .start();
  stack.defer(async () => void (await container.stop()));
  return {
    url: `postgres://postgres@${container.getHost()}:${container.getMappedPort(5432)}/postgres`,
    from: 'container',
  };
}

async function containerRedis(stack: AsyncDisposableStack): Promise<Found> {
  const container = await new GenericContainer('redis:8.4-alpine').withExposedPorts(6379).start();
  stack.defer(async () => void (await container.stop()));
  return { url: `redis://${container.getHost()}:${container.getMappedPort(6379)}`, from: 'container' };
}

async function embeddedPostgres(stack: AsyncDisposableStack): Promise<string> {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'baton-test-'));
  stack.defer(() => rmSync(dataDir, { recursive: true, force: true }));
  const postgres = stack.use(await startEmbeddedPostgres({ dataDir }));
  await letForeignKeysRest(postgres, dataDir);
  return postgres.connectionString;
}

/** Databases are emptied without a look at foreign keys, which the embedded server's role may not do of its own. */
async function letForeignKeysRest({ connectionString }: EmbeddedPostgres, dataDir: string): Promise<void> {
  const { superuserPassword } = await readCredentials(clusterDirOf(dataDir));
  const url = new URL(connectionString);
  const role = url.username;
  Object.assign(url, { username: 'postgres', password: superuserPassword, pathname: '/postgres' });
  await runAsAdmin(url.href, `grant set on parameter session_replication_role to ${role}`);
}
