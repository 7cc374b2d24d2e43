import { Kysely, PostgresDialect, Transaction } from 'kysely';
import pg from 'pg';
import { boundAnswers } from './bounded-pool.ts';
import { OutOfTurn } from './lock-turns.ts';
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

/**
 * Runs `work` in a transaction: in the caller's, where `db` is one. In one of its own it is run again from its beginning
 * where too many connections waited for a lock of it.
 * @throws BatonError `store_unavailable` where its turn did not come in time; what `work` throws
 */
export async function inTransaction<T>(db: Db | Tx, work: (tx: Tx) => Promise<T>): Promise<T> {
  if (db instanceof Transaction) return work(db);
  let sinceMs: number | null = null;
  for (let before: OutOfTurn | null = null; ; ) {
    const outcome = await db
      .transaction()
      .execute(work)
      .then((result) => ({ result }), orOutOfTurn)
      .finally(() => before?.enqueueNext());
    if (!(outcome instanceof OutOfTurn)) return outcome.result;
    before = outcome;
    const turn = before.turn(sinceMs);
    sinceMs ??= performance.now();
    await turn;
  }
}

function orOutOfTurn(error: unknown): OutOfTurn {
  if (error instanceof OutOfTurn) return error;
  throw error;
}

/** A server that never answers must not keep its callers waiting for ever; a busy pool may take a moment. */
const CONNECT_TIMEOUT_MS = 5_000;

/** Transactions wait for nobody: one that stands still has lost its client, and holds locks that others wait for. */
const IDLE_TRANSACTION_TIMEOUT_MS = 15_000;

/** The server ends what takes too long before its client gives that up, and with it the connection. */
const SERVER_SHARE = 0.9;

/** Shorter still: a statement that waited for another is told from one that is too much work. */
const LOCK_SHARE = 0.8;

/** The server finds out within 25 s that the other end of a connection is gone without a word. */
const SERVER_KEEPALIVES = '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3';

/**
 * A pool of connections as a Kysely instance. `await db.destroy()` closes it.
 * bigint columns are read as numbers: sequences and token counts stay far below 2^53.
 */
export function openDatabase(options: DatabaseOptions): Db {
  const { answerWithinMs } = options;
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    max: options.maxConnections ?? 10,
    application_name: options.applicationName ?? 'baton',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
    // What the client no longer waits for would go on in Postgres, and wait for its locks.
    ...(answerWithinMs !== undefined && {
      statement_timeout: Math.floor(answerWithinMs * SERVER_SHARE),
      lock_timeout: Math.floor(answerWithinMs * LOCK_SHARE),
    }),
    options: SERVER_KEEPALIVES,
    types: { getTypeParser: typeParser },
  });
  const onError = options.onConnectionError ?? (() => undefined);
  pool.on('error', onError);
  // The pool listens only while a connection is idle; one that dies in use would end the process.
  pool.on('connect', (client) => client.on('error', onError));
  return new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: answerWithinMs === undefined ? pool : boundAnswers(pool, answerWithinMs) }),
  });
}

const typeParser: typeof pg.types.getTypeParser = (oid, format) =>
  oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format);
