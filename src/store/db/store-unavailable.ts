import { BatonError } from '../../domain/errors.ts';

/** Error codes of the operating system for a server that is unreachable or hung up. */
const CONNECTION_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
]);

/**
 * SQLSTATE prefixes of temporary refusals. The first match counts.
 * (https://www.postgresql.org/docs/current/errcodes-appendix.html)
 */
const REFUSALS: readonly (readonly [state: string, what: string])[] = [
  ['08', 'cannot be reached'],
  ['25006', 'takes no writes'],
  ['25P03', 'has ended a transaction that stood still'],
  ['40', 'has given up a transaction'],
  ['53100', 'has no room left on its disk'],
  ['53200', 'has no memory left'],
  ['53300', 'has no connection left'],
  ['53', 'has reached a limit of its resources'],
  ['55P03', 'has waited too long for a lock'],
  ['57014', 'has ended a statement that took too long'],
  ['57P', 'is stopping or starting'],
];

/** Messages of pg and Kysely that come without a code. */
const CONNECTION_MESSAGES =
  /^(Connection terminated|Client has encountered a connection error|Postgres connection has been discarded|timeout exceeded when trying to connect|timeout expired|Cannot use a pool after calling end|driver has already been destroyed)/i;

/** A sentence that says why the database refuses statements for now. Null: the statement would fail again. */
export function whyStoreUnavailable(error: unknown): string | null {
  if (error instanceof BatonError) return error.code === 'store_unavailable' ? error.message : null;
  if (!(error instanceof Error)) return null;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const refusal = REFUSALS.find(([state]) => /^[0-9A-Z]{5}$/.test(code) && code.startsWith(state));
  if (refusal !== undefined) return `The database ${refusal[1]} (${code}: ${error.message})`;
  const isUnreachable = CONNECTION_CODES.has(code) || CONNECTION_MESSAGES.test(error.message);
  return isUnreachable ? 'The database cannot be reached' : null;
}

/** SQLSTATE classes after which a commit may have happened: the connection broke, or Postgres stopped. */
const MAY_BE_COMMITTED = /^(08|57P)/;

/** Whether Postgres or a function of the product there (`BT…`) refused the statement, so that nothing of it was committed. */
export function isRolledBack(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  return /^([0-9FHPX][0-9A-Z]{4}|BT\d{3})$/.test(code) && !MAY_BE_COMMITTED.test(code);
}

export const isStoreUnavailable = (error: unknown): boolean => whyStoreUnavailable(error) !== null;
