import { cpus } from 'node:os';
import pg from 'pg';
import { hasRedisServer, startOwnPostgres, startOwnRedis } from '../test/faults/world/services.ts';

const BACKENDS = ['redis', 'postgres'] as const;
export type Backend = (typeof BACKENDS)[number];

/** The stores that the cases use. */
export type Services = AsyncDisposable &
  Readonly<{
    postgresUrl: string;
    /** Null: no Redis, so the cases run on Postgres alone. */
    redisUrl: string | null;
    backends: readonly Backend[];
    /** A migrated database without a connection: databases are copies of it. Without it each is migrated. */
    templateName?: string;
  }>;

/**
 * Starts a Postgres and a Redis for the bench alone: npm's Postgres binaries with the settings of `npm start` (fsync
 * and synchronous commit on, 128 MB of shared buffers), and `redis-server` without persistence. DATABASE_URL and
 * REDIS_URL name others; `only` leaves out the other backend.
 */
export async function startServices(only?: Backend): Promise<Services> {
  await using stack = new AsyncDisposableStack();
  const postgresUrl = process.env['DATABASE_URL'] ?? stack.use(await startOwnPostgres()).connectionString();
  const redisUrl = only === 'postgres' ? null : (process.env['REDIS_URL'] ?? (await ownRedis(stack)));
  if (only === 'redis' && redisUrl === null) throw new Error('there is no redis-server on the path');
  const owned = stack.move();
  return {
    postgresUrl,
    redisUrl,
    backends: BACKENDS.filter(
      (backend) => (only ?? backend) === backend && (backend === 'postgres' || redisUrl !== null),
    ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function ownRedis(stack: AsyncDisposableStack): Promise<string | null> {
  if (!hasRedisServer()) return null;
  const { port } = stack.use(await startOwnRedis());
  return `redis://127.0.0.1:${port}`;
}

/** One line with the machine and the settings that the numbers depend on. */
export async function describeServices({ postgresUrl, redisUrl }: Services): Promise<string> {
  const client = new pg.Client({ connectionString: postgresUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ setting: string }>(
      `select name || '=' || setting || coalesce(unit, '') as setting from pg_settings
       where name in ('server_version', 'fsync', 'synchronous_commit', 'shared_buffers') order by name`,
    );
    const [cpu] = cpus();
    const machine = `${cpus().length} x ${cpu?.model.trim()}, Node ${process.versions.node}`;
    return `${machine}; Postgres ${rows.map(({ setting }) => setting).join(' ')}; ${redisUrl === null ? 'no Redis' : 'Redis'}`;
  } finally {
    await client.end();
  }
}
