import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type pg from 'pg';
import { BatonError } from '../../domain/errors.ts';

/** A pool of `pg`, or what stands for one. */
export type ConnectionSource = Readonly<{
  options: object;
  connect: () => Promise<LentConnection>;
  end: () => Promise<void>;
}>;

export type LentConnection = Readonly<{
  query: (config: pg.QueryConfig) => Promise<pg.QueryResult>;
  release: (isBroken: boolean) => void;
}>;

/**
 * A pool whose queries are answered in time or reject with `store_unavailable`. A connection that owes an answer is
 * closed: the network may have lost it silently, and pg would queue later queries behind the first.
 */
export function boundAnswers(
  pool: ConnectionSource,
  answerWithinMs: number,
  types?: pg.CustomTypesConfig,
): PostgresPool {
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => boundClient(await pool.connect(), answerWithinMs, types),
  };
}

/** Names of prepared statements, by their text. */
const names = new Map<string, string>();

/**
 * Calls of SQL functions get a name, so that Postgres parses and plans each once per connection
 * (https://node-postgres.com/features/queries#prepared-statements). Other statements get none.
 */
function nameOf(text: string): string | undefined {
  const called = /^\s*select (baton_\w+)\(/.exec(text)?.[1];
  if (called === undefined) return undefined;
  const name = names.get(text) ?? `${called}_${names.size}`;
  names.set(text, name);
  return name;
}

function boundClient(
  client: LentConnection,
  answerWithinMs: number,
  types: pg.CustomTypesConfig | undefined,
): PostgresPoolClient {
  let isSilent = false;

  async function ask(text: string, values: readonly unknown[]): Promise<pg.QueryResult> {
    if (isSilent) throw silence();
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      isSilent = true;
      late.reject(silence());
    }, answerWithinMs);
    try {
      const query = { name: nameOf(text), text, values: [...values], ...(types !== undefined && { types }) };
      return await Promise.race([client.query(query), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  function query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  function query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
  function query(text: unknown, values: readonly unknown[] = []): unknown {
    if (typeof text !== 'string') throw new Error('a bounded connection has no cursors');
    return ask(text, values);
  }

  const silence = (): BatonError =>
    new BatonError('store_unavailable', `Postgres did not answer within ${answerWithinMs} ms`);
  return { query, release: (destroy) => client.release(destroy === true || isSilent) };
}
