import { ProblemError } from './problem.ts';

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
 * SQLSTATE prefixes of a Postgres that is away, stopping, starting or full, and of transactions that it gave up on and
 * that may be tried again (https://www.postgresql.org/docs/current/errcodes-appendix.html).
 */
const RETRYABLE_STATES = ['08', '40', '53', '57P'];
const UNIQUE_VIOLATION = '23505';
/** pg and Kysely report these without a code. */
const CONNECTION_MESSAGES =
  /^(Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|Cannot use a pool after calling end|driver has already been destroyed)/i;

/** The problem behind an error of the database, or null when it is a defect of ours. */
export function toStoreProblem(error: unknown): ProblemError | null {
  if (!(error instanceof Error)) return null;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (code === UNIQUE_VIOLATION) {
    return new ProblemError('conflict', 'Something with this id exists already', { cause: error });
  }
  const away = CONNECTION_CODES.has(code) || RETRYABLE_STATES.some((state) => isState(code, state));
  if (!away && !CONNECTION_MESSAGES.test(error.message)) return null;
  return new ProblemError('store_unavailable', 'The database cannot be reached at the moment; try again', {
    cause: error,
    headers: { 'retry-after': '1' },
  });
}

const isState = (code: string, prefix: string): boolean => /^[0-9A-Z]{5}$/.test(code) && code.startsWith(prefix);
