import type { PgPool } from 'bullmq';
import pg from 'pg';
import { patientConnect } from '../platform/patient-connect.ts';
import { PLAN_SETTINGS } from '../platform/plan-settings.ts';
import { applySettings, splitSettings } from '../platform/postgres-settings.ts';

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
 * The first calls on a new connection take 60 to 90 ms of CPU: Postgres reads and compiles BullMQ's functions for each.
 * So the pool opens one connection, a further one only if calls wait, and keeps them.
 */
const IDLE_FOR_MS = 600_000;

/** A call that has waited this long for a connection lets the pool open one more. */
const GROW_AFTER_MS = 250;

export type QueuePool = PgPool &
  AsyncDisposable &
  Readonly<{
    /** One connection more until it is disposed, for a worker that listens on it all the time. */
    addListener: () => Disposable;
  }>;

/**
 * A pool for all queues and workers of a process. While Postgres refuses further connections, calls wait for one of
 * those that it has. It hands out no dead connection, on which BullMQ would wait for notifications forever. BullMQ's own
 * pools leave a new connection without an error listener for a moment, and one that dies then ends the process.
 */
export function openQueuePool(options: QueuePoolOptions): QueuePool {
  const pool = openPool(options);
  const died = new WeakMap<pg.PoolClient, Error>();
  // Each queue and worker listens for errors of the pool. An idle connection that dies before or after all of them must
  // not end the process either.
  pool.setMaxListeners(0);
  pool.on('error', () => undefined);
  // Called before `pool.connect` hands out the connection, in the turn in which it became ready.
  pool.on('connect', (client) => client.on('error', (error) => died.set(client, error)));
  const size: Size = { forCalls: 1, forListeners: 0 };
  const connectOnce = patientConnect(pool, options.answerWithinMs, () => mostOf(size));
  const growIfCallsWait = createGrowth({ pool, size, connectOnce, maxConnections: options.maxConnections });
  const connect = async (): Promise<pg.PoolClient> => {
    const connecting = connectOnce();
    growIfCallsWait();
    const client = await connecting;
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
    query: (text: string, params: readonly unknown[] = []) => queryOn(connect, text, params),
    end,
    on(event: 'error' | 'connect', listener: (subject: never) => void) {
      pool.on(event as 'error', listener as (error: Error) => void);
      return shared;
    },
    removeAllListeners: () => shared,
    addListener: () => addListener(pool, size),
    [Symbol.asyncDispose]: end,
  };
  return shared as QueuePool;
}

/** Connections that the pool may have for calls, and those that workers listen on. */
type Size = { forCalls: number; forListeners: number };

const mostOf = ({ forCalls, forListeners }: Size): number => forCalls + forListeners;

function openPool({ connectionString: address, schema, answerWithinMs }: QueuePoolOptions): pg.Pool {
  const { connectionString, settings } = splitSettings(address);
  const all = { ...PLAN_SETTINGS, idle_session_timeout: '0', ...settings, search_path: `"${schema}"` };
  return new pg.Pool({
    connectionString,
    max: 1,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    connectionTimeoutMillis: answerWithinMs,
    query_timeout: answerWithinMs,
    idleTimeoutMillis: IDLE_FOR_MS,
    onConnect: (client) => applySettings(client, all),
  });
}

/** @returns lets the pool open one more connection after a while, if calls wait for one then, too */
function createGrowth({
  pool,
  size,
  connectOnce,
  maxConnections,
}: Readonly<{
  pool: pg.Pool;
  size: Size;
  connectOnce: () => Promise<pg.PoolClient>;
  maxConnections: number;
}>): () => void {
  let growing: NodeJS.Timeout | null = null;
  const growIfCallsWait = (): void => {
    if (growing !== null || pool.waitingCount === 0 || size.forCalls === maxConnections) return;
    growing = setTimeout(() => {
      growing = null;
      if (pool.waitingCount === 0 || pool.ending) return;
      size.forCalls++;
      pool.options.max++;
      // The pool itself opens none for calls that wait already. The first of them gets this one.
      connectOnce().then(
        (client) => client.release(),
        () => undefined,
      );
      growIfCallsWait();
    }, GROW_AFTER_MS).unref();
  };
  return growIfCallsWait;
}

async function queryOn(
  connect: () => Promise<pg.PoolClient>,
  text: string,
  params: readonly unknown[],
): Promise<pg.QueryResult> {
  const client = await connect();
  let isWhole = false;
  try {
    const answer = await client.query(text, [...params]);
    isWhole = true;
    return answer;
  } finally {
    // As pg's own pool does, since the error may be of the connection.
    client.release(!isWhole);
  }
}

function addListener(pool: pg.Pool, size: Size): Disposable {
  size.forListeners++;
  pool.options.max++;
  return {
    [Symbol.dispose]: () => {
      size.forListeners--;
      // It is lower while Postgres refuses connections.
      pool.options.max = Math.min(pool.options.max, mostOf(size));
    },
  };
}
