import pg from 'pg';

type Queried = (this: pg.Client, ...args: unknown[]) => unknown;

/**
 * Counts the round trips to Postgres of this process from now on, whoever makes them: a query that is handed to the driver
 * is one. @returns how many so far
 */
export function countQueries(): () => number {
  let count = 0;
  const prototype = pg.Client.prototype as unknown as { query: Queried };
  const { query } = prototype;
  prototype.query = function counted(...args) {
    count += 1;
    return query.apply(this, args);
  };
  return () => count;
}
