import { createRequire } from 'node:module';
import type pg from 'pg';

type Queried = (this: pg.Client, ...args: unknown[]) => unknown;

/**
 * Counts the round trips to Postgres of this process from now on, whoever makes them: a query that is handed to the
 * driver is one. @returns how many so far
 */
export function countQueries(): () => number {
  let count = 0;
  const prototype = driverOfTheStore().Client.prototype as unknown as { query: Queried };
  const { query } = prototype;
  prototype.query = function counted(...args) {
    count += 1;
    return query.apply(this, args);
  };
  return () => count;
}

/** The packages of the case `peers` bring a copy of the driver along, which is another one seen from this folder. */
function driverOfTheStore(): typeof pg {
  return createRequire(new URL('../../src/store/database.ts', import.meta.url))('pg');
}
