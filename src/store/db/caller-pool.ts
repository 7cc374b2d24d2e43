import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { BatonError } from '../../domain/errors.ts';
import { isRefusedForNow } from '../../platform/patient-connect.ts';
import { applySettings, type PostgresSettings, setAll, splitSettings } from '../../platform/postgres-settings.ts';
import { within } from '../../platform/within.ts';
import type { ConnectionSource, LentConnection } from './bounded-pool.ts';

/** A pool of `pg` that a program has made and ends itself. */
export type CallerPool = Pick<pg.Pool, 'connect' | 'options'>;

/** Long enough for a busy pool, as with Baton's own pools. */
const CONNECT_TIMEOUT_MS = 5_000;

/** Between two attempts of a caller while Postgres refuses a connection. */
const TRY_AGAIN_MS = 250;

const MIN_CONNECTIONS = 2;

/** @throws BatonError `config_invalid` for a value that is not a pool of `pg`, or a pool that is too small */
export function checkCallerPool(pool: unknown): asserts pool is CallerPool {
  const { connect, options } = (pool ?? {}) as Partial<CallerPool>;
  if (typeof connect !== 'function' || typeof options !== 'object') {
    throw new BatonError('config_invalid', 'pool: expected a Pool of pg 8');
  }
  if (options.max === undefined || options.max >= MIN_CONNECTIONS) return;
  const message = `pool: its max is ${options.max}; Baton needs ${MIN_CONNECTIONS} connections or more`;
  throw new BatonError('config_invalid', message);
}

/**
 * The connections of a program's pool. Each gets these settings when it is lent, and its own ones back when it is
 * returned: the program never meets a setting of Baton's. Ending it waits for the returns and leaves the pool open.
 */
export function lendConnections(
  pool: CallerPool,
  /** A connection has them only while Baton uses it. */
  settings: PostgresSettings,
  answerWithinMs: number,
  onError: (error: Error) => void,
): ConnectionSource {
  const returning = new Set<Promise<void>>();
  const names = Object.keys(settings);
  const read = names.map((name) => `current_setting(${pg.escapeLiteral(name)}) as ${pg.escapeIdentifier(name)}`);
  const lend = `select ${read.join(', ')}; select ${setAll(settings)}`;

  async function connect(): Promise<LentConnection> {
    const client = await freeClient(pool);
    client.on('error', onError);
    const give = (isBroken: boolean): void => {
      client.off('error', onError);
      client.release(isBroken);
    };
    const settled = async (asked: Promise<unknown>): Promise<void> => {
      const restored = await within(answerWithinMs, asked).then(
        () => true,
        () => false,
      );
      give(!restored);
    };
    let own: PostgresSettings;
    try {
      own = ownOf(await within(answerWithinMs, client.query(lend)));
    } catch (error) {
      give(true);
      throw error;
    }
    return {
      query: (config) => client.query(config),
      release(isBroken) {
        if (isBroken) return give(true);
        const returned = settled(client.query(`select ${setAll(own)}`)).finally(() => returning.delete(returned));
        returning.add(returned);
      },
    };
  }
  return {
    options: pool.options,
    connect,
    async end() {
      await Promise.all(returning);
    },
  };
}

/** A text of several statements has several results, which the types of `pg` do not know. */
function ownOf(results: unknown): PostgresSettings {
  const [{ rows }] = results as [pg.QueryResult<PostgresSettings>];
  return rows[0] ?? {};
}

/** While Postgres refuses the pool a further connection, one that it has may become free. */
async function freeClient(pool: CallerPool): Promise<pg.PoolClient> {
  const startedMs = performance.now();
  for (;;) {
    try {
      return await oneClient(pool, CONNECT_TIMEOUT_MS - (performance.now() - startedMs));
    } catch (error) {
      const isForNow = error instanceof Error && isRefusedForNow(error.cause);
      if (!isForNow || performance.now() - startedMs > CONNECT_TIMEOUT_MS) throw error;
      await delay(TRY_AGAIN_MS * (0.5 + Math.random()));
    }
  }
}

async function oneClient(pool: CallerPool, limitMs: number): Promise<pg.PoolClient> {
  const asked = pool.connect();
  return within(limitMs, asked).catch(async (error: unknown) => {
    // A connection that comes too late goes back unused.
    void asked.then(
      (client) => client.release(),
      () => undefined,
    );
    throw new BatonError('store_unavailable', 'the given pool gave no connection in time', { cause: error });
  });
}

/** The server and database of a connection, and the search path by which it finds tables. */
type Place = Readonly<{ server: string; database: string; searchPath: string }>;

const WHERE = `select pg_postmaster_start_time()::text as server, current_database() as database,
  current_setting('search_path') as "searchPath"`;

/**
 * The search path of Baton's own connections. Those of the pool need the same one.
 * @throws BatonError `config_invalid` if the pool is one of another database
 */
export async function readSearchPath(connectionString: string, pool: CallerPool): Promise<string> {
  const own = splitSettings(connectionString);
  const client = new pg.Client({
    connectionString: own.connectionString,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  client.on('error', () => undefined);
  const lent = await freeClient(pool);
  try {
    await client.connect();
    await applySettings(client, own.settings);
    const [direct, given] = await within(
      CONNECT_TIMEOUT_MS,
      Promise.all([client, lent].map(async (each) => (await each.query<Place>(WHERE)).rows[0])),
    );
    if (direct?.server !== given?.server || direct?.database !== given?.database) {
      const message = `pool: it leads to the database ${given?.database}, and databaseUrl to another one of this name or to ${direct?.database}`;
      throw new BatonError('config_invalid', message);
    }
    return direct?.searchPath ?? '';
  } finally {
    lent.release();
    await client.end().catch(() => undefined);
  }
}
