import type { PgPool } from 'bullmq';
import pg from 'pg';

export type QueuePoolOptions = Readonly<{
  connectionString: string;
  /** The schema of BullMQ's tables. */
  schema: string;
  maxConnections: number;
  /** A connection that is not made, or a query that is not answered in this time, is given up. */
  answerWithinMs: number;
}>;

/** An idle connection is asked for a sign of life after this long: BullMQ listens on one for up to an hour. */
const KEEP_ALIVE_AFTER_MS = 10_000;

/**
 * A pool for one queue or worker of BullMQ, which neither makes nor ends it then. The pools that BullMQ makes leave a
 * connection without a listener for errors between its opening and its use, and one that dies there ends the process.
 * Here such a connection is not handed out: BullMQ would keep it for its notifications, and never hear of its end.
 */
export function openQueuePool(options: QueuePoolOptions): PgPool & AsyncDisposable {
  const given = takeOptions(options.connectionString);
  const pool = new pg.Pool({
    connectionString: given.connectionString,
    max: options.maxConnections,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    connectionTimeoutMillis: options.answerWithinMs,
    query_timeout: options.answerWithinMs,
    options: `${given.options} -c search_path="${options.schema}"`.trimStart(),
  });
  const died = new WeakMap<pg.PoolClient, Error>();
  // Told before anybody has the connection, and in the same turn in which it became ready.
  pool.on('connect', (client) => client.on('error', (error) => died.set(client, error)));
  const connect = async (): Promise<pg.PoolClient> => {
    const client = await pool.connect();
    const error = died.get(client);
    if (error === undefined) return client;
    client.release(true);
    throw error;
  };
  let ended: Promise<void> | null = null;
  const end = (): Promise<void> => {
    ended ??= pool.end();
    return ended;
  };
  const shared = {
    options: pool.options,
    connect,
    query: (text: string, params?: readonly unknown[]) => pool.query(text, params === undefined ? [] : [...params]),
    end,
    on(event: 'error' | 'connect', listener: (subject: never) => void) {
      pool.on(event as 'error', listener as (error: Error) => void);
      return shared;
    },
    removeAllListeners: () => shared,
    [Symbol.asyncDispose]: end,
  };
  return shared as PgPool & AsyncDisposable;
}

/**
 * `pg` takes the options of the connection string in place of those beside it, and BullMQ's tables would not be found.
 */
function takeOptions(connectionString: string): { connectionString: string; options: string } {
  if (!URL.canParse(connectionString)) return { connectionString, options: '' };
  const url = new URL(connectionString);
  const options = url.searchParams.get('options');
  if (options === null) return { connectionString, options: '' };
  url.searchParams.delete('options');
  return { connectionString: url.href, options };
}
