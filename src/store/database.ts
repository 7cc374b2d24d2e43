import { Kysely, PostgresDialect, Transaction } from 'kysely';
import pg from 'pg';
import { boundAnswers } from './bounded-pool.ts';
import type { Tables } from './tables.ts';

/** Reads may use either; what must be atomic takes a `Tx`, so the type says it. */
export type Db = Kysely<Tables>;
export type Tx = Transaction<Tables>;

export type DatabaseOptions = Readonly<{
  connectionString: string;
  /** Connections at most. */
  maxConnections?: number;
  /** Shows in pg_stat_activity. */
  applicationName?: string;
  /** A query without an answer for this long is given up, and its connection with it. Default: no limit. */
  answerWithinMs?: number;
  /** Told of connections that died: the pool replaces them, the query in hand rejects. */
  onConnectionError?: (error: Error) => void;
}>;

const INT8_OID = 20;

/** Runs `work` in a transaction: in the caller's, where `db` is one. */
export function inTransaction<T>(db: Db | Tx, work: (tx: Tx) => Promise<T>): Promise<T> {
  return db instanceof Transaction ? work(db) : db.transaction().execute(work);
}

/** A server that never answers must not keep its callers waiting for ever; a busy pool may take a moment. */
const CONNECT_TIMEOUT_MS = 5_000;

/** Transactions wait for nobody: one that stands still has lost its client, and holds locks that others wait for. */
const IDLE_TRANSACTION_TIMEOUT_MS = 15_000;

/** The server finds out within 25 s that the other end of a connection is gone without a word. */
const SERVER_KEEPALIVES = '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3';

/**
 * A pool of connections as a Kysely instance. `await db.destroy()` closes it.
 * bigint columns are read as numbers: sequences and token counts stay far below 2^53.
 */
export function openDatabase(options: DatabaseOptions): Db {
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    max: options.maxConnections ?? 10,
    application_name: options.applicationName ?? 'baton',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
    options: SERVER_KEEPALIVES,
    types: { getTypeParser: typeParser },
  });
  const onError = options.onConnectionError ?? (() => undefined);
  pool.on('error', onError);
  // The pool listens only while a connection is idle; one that dies in use would end the process.
  pool.on('connect', (client) => client.on('error', onError));
  const { answerWithinMs } = options;
  return new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: answerWithinMs === undefined ? pool : boundAnswers(pool, answerWithinMs) }),
  });
}

const typeParser: typeof pg.types.getTypeParser = (oid, format) =>
  oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format);
