import { createRequire } from 'node:module';
import type pg from 'pg';

type Queried = (this: pg.Client, ...args: unknown[]) => unknown;

/**
 * Counts the round trips of this process to Postgres from now on. Each query that is handed to the driver counts.
 * @returns reads the count
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

/** The packages of the case `peers` bring their own copy of the driver, and this folder would load that one. */
function driverOfTheStore(): typeof pg {
  return createRequire(new URL('../../src/store/db/database.ts', import.meta.url))('pg');
}
