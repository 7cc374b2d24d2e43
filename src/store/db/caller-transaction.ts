import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from 'kysely';
import type pg from 'pg';
import { BatonError } from '../../domain/errors.ts';
import type { Tx } from './database.ts';
import { readTypes } from './database.ts';
import type { Tables } from './tables.ts';

/** A client of `pg`, of a pool or not, with which a program has begun a transaction. */
export type CallerClient = Readonly<{
  query: (config: pg.QueryConfig) => Promise<Pick<pg.QueryResult, 'rows' | 'rowCount'>>;
}>;

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const NO_ACTIVE_TRANSACTION = '25P01';

/**
 * Runs `work` as a part of a transaction that the program has begun and will commit. If `work` fails, its changes alone
 * are taken back, by a savepoint, and the program may go on.
 * @param schema that of Baton's tables, if they have one of their own
 * @throws BatonError `invalid_request` for what is no client of `pg`, or one in no transaction; errors of `work`
 */
export async function inCallerTransaction<T>(
  client: CallerClient,
  schema: string | undefined,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  // Programs in JavaScript have no types.
  if (typeof (client as Partial<CallerClient> | undefined | null)?.query !== 'function') {
    throw new BatonError('invalid_request', 'client: expected a client of pg, on which the program has sent `begin`');
  }
  const db = new Kysely<Tables>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => driverOf(client, schema),
      createIntrospector: (of) => new PostgresIntrospector(of),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
  return db.transaction().execute(work);
}

function driverOf(client: CallerClient, schema: string | undefined): Driver {
  const connection: DatabaseConnection = {
    async executeQuery<R>({ sql: text, parameters }: CompiledQuery): Promise<QueryResult<R>> {
      const { rows, rowCount } = await client.query({ text, values: [...parameters], types: readTypes });
      return { rows, ...(rowCount !== null && { numAffectedRows: BigInt(rowCount) }) };
    },
    streamQuery() {
      throw new Error('a given transaction has no cursors');
    },
  };
  const run = async (text: string): Promise<void> => void (await connection.executeQuery(CompiledQuery.raw(text)));
  const lookIn = (path: string) =>
    connection.executeQuery(CompiledQuery.raw(`select set_config('search_path', $1, true)`, [path]));
  let ofProgram = '';
  return {
    init: async () => undefined,
    acquireConnection: async () => connection,
    async beginTransaction() {
      try {
        await run('savepoint baton');
      } catch (cause) {
        if ((cause as Readonly<{ code?: unknown }>).code !== NO_ACTIVE_TRANSACTION) throw cause;
        throw new BatonError('invalid_request', 'the client is in no transaction: send `begin` first', { cause });
      }
      if (schema === undefined) return;
      const { rows } = await connection.executeQuery<{ path: string }>(
        CompiledQuery.raw(`select current_setting('search_path') as path`),
      );
      ofProgram = rows[0]?.path ?? '';
      await lookIn(schema);
    },
    async commitTransaction() {
      if (schema !== undefined) await lookIn(ofProgram);
      await run('release savepoint baton');
    },
    rollbackTransaction: () => run('rollback to savepoint baton'),
    releaseConnection: async () => undefined,
    destroy: async () => undefined,
  };
}
