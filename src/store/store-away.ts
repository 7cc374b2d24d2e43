import { BatonError } from '../domain/errors.ts';

/** Codes of the operating system for a server that cannot be reached or that hung up. */
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
 * SQLSTATE prefixes of a Postgres that is away, stopping, starting or full, of a session that it has ended, and of
 * transactions that it gave up on and that may be tried again
 * (https://www.postgresql.org/docs/current/errcodes-appendix.html).
 */
const RETRYABLE_STATES = ['08', '25P03', '40', '53', '57P'];

/** pg and Kysely report these without a code. */
const CONNECTION_MESSAGES =
  /^(Connection terminated|Client has encountered a connection error|Postgres connection has been discarded|timeout exceeded when trying to connect|timeout expired|Cannot use a pool after calling end|driver has already been destroyed)/i;

/** Whether an error says that the database is away for the moment, and that the same may be tried again. */
export function isStoreAway(error: unknown): boolean {
  if (error instanceof BatonError) return error.code === 'store_unavailable';
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const away = CONNECTION_CODES.has(code) || RETRYABLE_STATES.some((state) => isState(code, state));
  return away || CONNECTION_MESSAGES.test(error.message);
}

const isState = (code: string, prefix: string): boolean => /^[0-9A-Z]{5}$/.test(code) && code.startsWith(prefix);
