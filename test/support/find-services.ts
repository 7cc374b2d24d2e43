import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { GenericContainer } from 'testcontainers';
import { clusterDirOf, readCredentials } from '../../src/embedded/cluster.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import { chooseServices, dockerSockets, type Role, serviceMode, whyNotUsable } from './choose-services.ts';
import { runAsAdmin } from './postgres.ts';

export type Services = AsyncDisposable &
  Readonly<{ postgresUrl: string; redisUrl: string | null; report: readonly string[] }>;

/**
 * Finds what the tests run against, in this order: the environment (BATON_TEST_DATABASE_URL, BATON_TEST_REDIS_URL),
 * services on this machine, Testcontainers where Docker runs, the embedded Postgres. BATON_TEST_SERVICES=embedded skips
 * to the last; with `containers` the services of this machine do not count.
 */
export async function findServices(): Promise<Services> {
  const stack = new AsyncDisposableStack();
  const mode = serviceMode(process.env);
  const [ownPostgres, ownRedis] =
    mode === 'embedded' ? [null, null] : await Promise.all([localPostgres(), localRedis()]);
  const postgres = ownPostgres?.unusable === undefined ? ownPostgres : null;
  const answering = { postgres: postgres?.from ?? null, redis: ownRedis?.from ?? null };
  const hasDocker = process.env['DOCKER_HOST'] !== undefined || dockerSockets(process.env).some(existsSync);
  const chosen = chooseServices(mode, answering, hasDocker);
  const postgresUrl =
    chosen.postgres === 'container'
      ? await containerPostgres(stack)
      : chosen.postgres === 'embedded' || postgres === null
        ? await embeddedPostgres(stack)
        : postgres.url;
  const redisUrl =
    chosen.redis === 'container' ? await containerRedis(stack) : chosen.redis === 'none' ? null : ownRedis?.url;
  const report = [
    `tests: Postgres ${chosen.postgres}`,
    ...(ownPostgres?.unusable === undefined ? [] : [`tests: the Postgres here is not used: ${ownPostgres.unusable}`]),
    chosen.redis === 'none'
      ? 'tests: no Redis here (none local, no Docker): the project redis is skipped, all else runs on Postgres'
      : `tests: Redis ${chosen.redis}`,
  ];
  return { postgresUrl, redisUrl: redisUrl ?? null, report, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

type Found = Readonly<{ url: string; from: 'given' | 'local' }>;
/** `unusable`: why the tests cannot use it. */
type FoundPostgres = Found & Readonly<{ unusable?: string }>;

/** @throws Error for a given one that does not answer, or that the tests cannot use */
async function localPostgres(): Promise<FoundPostgres | null> {
  const given = process.env['BATON_TEST_DATABASE_URL'];
  const url = given ?? 'postgres://postgres@127.0.0.1:5432/postgres';
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  const role = await readRole(client).catch((error: unknown) => {
    if (given !== undefined) throw new Error('BATON_TEST_DATABASE_URL does not answer', { cause: error });
    return null;
  });
  if (role === null) return null;
  const unusable = whyNotUsable(role);
  if (given !== undefined && unusable !== null) throw new Error(`BATON_TEST_DATABASE_URL cannot be used: ${unusable}`);
  return { url, from: given === undefined ? 'local' : 'given', ...(unusable !== null && { unusable }) };
}

async function readRole(client: pg.Client): Promise<Role> {
  await client.connect();
  const { rows } = await client.query<Role>(`
    select rolname as name, rolcreatedb as "createsDatabases", rolsuper as "isSuperuser"
    from pg_roles where rolname = current_user`);
  await client.end();
  const [role] = rows;
  if (role === undefined) throw new Error('Postgres does not know its own role');
  return role;
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

async function containerPostgres(stack: AsyncDisposableStack): Promise<string> {
  const container = await new GenericContainer('postgres:17.11-alpine')
    .withEnvironment({ POSTGRES_HOST_AUTH_METHOD: 'trust' })
    .withExposedPorts(5432)
    .start();
  stack.defer(async () => void (await container.stop()));
  return `postgres://postgres@${container.getHost()}:${container.getMappedPort(5432)}/postgres`;
}

async function containerRedis(stack: AsyncDisposableStack): Promise<string> {
  const container = await new GenericContainer('redis:8.4-alpine').withExposedPorts(6379).start();
  stack.defer(async () => void (await container.stop()));
  return `redis://${container.getHost()}:${container.getMappedPort(6379)}`;
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
