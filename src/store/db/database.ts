import { Kysely, PostgresDialect, Transaction } from 'kysely';
import pg from 'pg';
import { patientConnect } from '../../platform/patient-connect.ts';
import { PLAN_SETTINGS } from '../../platform/plan-settings.ts';
import { applySettings, type PostgresSettings, splitSettings } from '../../platform/postgres-settings.ts';
import { boundAnswers } from './bounded-pool.ts';
import { type CallerPool, lendConnections, readSearchPath } from './caller-pool.ts';
import { readJson } from './json.ts';
import { lendInTurns } from './lend-in-turns.ts';
import { LockBusy } from './lock-queue.ts';
import type { Tables } from './tables.ts';

/** Functions that need a transaction take a `Tx`; others take either. */
export type Db = Kysely<Tables>;
export type Tx = Transaction<Tables>;

export type DatabaseOptions = Readonly<{
  connectionString: string;
  maxConnections?: number;
  /** Shown in pg_stat_activity. */
  applicationName?: string;
  /** A query without an answer for this long rejects, and its connection is closed. Default: no limit. */
  answerWithinMs?: number;
  /** Called with each new connection, before it is used. */
  onConnect?: (client: pg.ClientBase) => Promise<void>;
  /** Called for each connection that dies. The pool replaces it; its query rejects. */
  onConnectionError?: (error: Error) => void;
}>;

const INT8_OID = 20;
/** Of `json` and `jsonb`. */
const JSON_OIDS: ReadonlySet<number> = new Set([114, 3802]);

/**
 * Runs `work` in the caller's transaction if `db` is one, else in a new one. A new one is rolled back and run again if
 * too many connections wait for a lock that it needs.
 * @throws BatonError `store_unavailable` if its turn did not come in time; errors of `work`
 */
export async function inTransaction<T>(db: Db | Tx, work: (tx: Tx) => Promise<T>): Promise<T> {
  if (db instanceof Transaction) return work(db);
  let sinceMs: number | null = null;
  for (let before: LockBusy | null = null; ; ) {
    const outcome = await db
      .transaction()
      .execute(work)
      .then((result) => ({ result }), orLockBusy)
      .finally(() => before?.enqueueNext());
    if (!(outcome instanceof LockBusy)) return outcome.result;
    before = outcome;
    const waited = before.waited(sinceMs);
    sinceMs ??= performance.now();
    await waited;
  }
}

/** All reads of `read` see the database as it was at the first of them. It must write nothing. */
export function inSnapshot<T>(db: Db | Tx, read: (tx: Tx) => Promise<T>): Promise<T> {
  if (db instanceof Transaction) return read(db);
  return db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only').execute(read);
}

function orLockBusy(error: unknown): LockBusy {
  if (error instanceof LockBusy) return error;
  throw error;
}

/** Long enough for a busy pool, short enough for callers when the server never answers. */
const CONNECT_TIMEOUT_MS = 5_000;

/** Postgres ends a transaction that stays idle: its client is gone, and it holds locks. */
const IDLE_TRANSACTION_TIMEOUT_MS = 15_000;

/** Postgres ends a statement before the client gives up on it and closes the connection. */
const SERVER_SHARE = 0.9;

/** Shorter than the statement timeout, so that the error tells a wait for a lock from too much work. */
const LOCK_SHARE = 0.8;

/** Postgres detects within 25 s that a client has vanished silently. */
const SERVER_KEEPALIVES = { tcp_keepalives_idle: '10', tcp_keepalives_interval: '5', tcp_keepalives_count: '3' };

/** Without a limit Postgres would keep running statements that their client has given up, and wait for their locks. */
const boundSettings = (answerWithinMs: number | undefined): PostgresSettings => ({
  idle_in_transaction_session_timeout: String(IDLE_TRANSACTION_TIMEOUT_MS),
  ...(answerWithinMs !== undefined && {
    statement_timeout: String(Math.floor(answerWithinMs * SERVER_SHARE)),
    lock_timeout: String(Math.floor(answerWithinMs * LOCK_SHARE)),
  }),
});

/** A pool as a Kysely instance. bigint columns are read as numbers: all values stay far below 2^53. */
export function openDatabase(options: DatabaseOptions): Db {
  const { answerWithinMs } = options;
  const { connectionString, settings } = splitSettings(options.connectionString);
  const all = { ...SERVER_KEEPALIVES, ...PLAN_SETTINGS, ...boundSettings(answerWithinMs), ...settings };
  const pool = new pg.Pool({
    connectionString,
    max: options.maxConnections ?? 10,
    application_name: options.applicationName ?? 'baton',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    onConnect: async (client) => {
      await applySettings(client, all);
      await options.onConnect?.(client);
    },
    types: readTypes,
  });
  const onError = options.onConnectionError ?? (() => undefined);
  pool.on('error', onError);
  // The pool listens to idle connections only. Without a listener, one that dies in use would end the process.
  pool.on('connect', (client) => client.on('error', onError));
  const connect = patientConnect(pool, CONNECT_TIMEOUT_MS);
  const patient = { options: pool.options, connect, end: () => pool.end() };
  if (answerWithinMs === undefined) return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: patient }) });
  const inTurns = lendInTurns(patient, () => pool.options.max, CONNECT_TIMEOUT_MS);
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: boundAnswers(inTurns, answerWithinMs) }) });
}

/**
 * A program's pool as a Kysely instance. Destroying it leaves the pool open.
 * @param options.connectionString of Baton's own connections to the same database
 * @throws BatonError `config_invalid` if it is another one
 */
export async function openLentDatabase(
  pool: CallerPool,
  {
    connectionString,
    answerWithinMs,
    onConnectionError,
  }: Readonly<{ connectionString: string; answerWithinMs: number; onConnectionError: (error: Error) => void }>,
): Promise<Db> {
  const settings = {
    search_path: await readSearchPath(connectionString, pool),
    ...boundSettings(answerWithinMs),
    default_transaction_isolation: 'read committed',
    ...PLAN_SETTINGS,
  };
  const lent = lendConnections(pool, settings, answerWithinMs, onConnectionError);
  const inTurns = lendInTurns(lent, () => pool.options.max ?? Number.POSITIVE_INFINITY, CONNECT_TIMEOUT_MS);
  return new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: boundAnswers(inTurns, answerWithinMs, readTypes) }),
  });
}

const typeParser: typeof pg.types.getTypeParser = (oid, format) => {
  if (oid === INT8_OID) return Number;
  return JSON_OIDS.has(oid) ? readJson : pg.types.getTypeParser(oid, format);
};

/** The parsers that the queries of this folder count on. */
export const readTypes: pg.CustomTypesConfig = { getTypeParser: typeParser };
