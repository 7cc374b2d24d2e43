import type { PgPool } from 'bullmq';
import pg from 'pg';
import { takeOptions } from '../platform/database-schema.ts';

export type QueuePoolOptions = Readonly<{
  connectionString: string;
  schema: string;
  maxConnections: number;
  /** Limit for opening a connection and for answering a query. */
  answerWithinMs: number;
}>;

/** TCP keep-alive of an idle connection. BullMQ listens on one for up to an hour. */
const KEEP_ALIVE_AFTER_MS = 10_000;

/**
 * A pool for one queue or worker that hands out no dead connection, on which BullMQ would wait for notifications
 * forever. BullMQ's own pools leave a new connection without an error listener for a moment, and one that dies then
 * ends the process.
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
  // Called before `pool.connect` hands out the connection, in the turn in which it became ready.
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
