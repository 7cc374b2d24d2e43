import { describe, expect, it } from 'vitest';
import { BatonError } from '../../src/domain/errors.ts';
import { isStoreUnavailable, whyStoreUnavailable } from '../../src/store/db/store-unavailable.ts';

const errorOf = (message: string, code?: string) => Object.assign(new Error(message), code !== undefined && { code });

const AWAY = [
  ['08006', 'connection failure', 'The database cannot be reached (08006: connection failure)'],
  ['25006', 'cannot execute UPDATE', 'The database takes no writes (25006: cannot execute UPDATE)'],
  ['25P03', 'timeout', 'The database has ended a transaction that stood still (25P03: timeout)'],
  ['40001', 'could not serialize', 'The database has given up a transaction (40001: could not serialize)'],
  ['53100', 'No space left', 'The database has no room left on its disk (53100: No space left)'],
  ['53200', 'out of memory', 'The database has no memory left (53200: out of memory)'],
  ['53300', 'too many clients', 'The database has no connection left (53300: too many clients)'],
  ['53400', 'limit', 'The database has reached a limit of its resources (53400: limit)'],
  ['55P03', 'canceled', 'The database has waited too long for a lock (55P03: canceled)'],
  ['57014', 'timeout', 'The database has ended a statement that took too long (57014: timeout)'],
  ['57P03', 'is starting up', 'The database is stopping or starting (57P03: is starting up)'],
  ['ECONNREFUSED', 'connect ECONNREFUSED 10.0.0.7:5432', 'The database cannot be reached'],
  [undefined, 'Connection terminated unexpectedly', 'The database cannot be reached'],
] as const;

describe('why the database does not take a statement', () => {
  it.each(AWAY)('is said of %s, %s', (code, message, why) => {
    expect(whyStoreUnavailable(errorOf(message, code))).toBe(why);
    expect(isStoreUnavailable(errorOf(message, code))).toBe(true);
  });

  it('is what our own bounds have said', () => {
    expect(whyStoreUnavailable(new BatonError('store_unavailable', 'Postgres did not answer within 5000 ms'))).toBe(
      'Postgres did not answer within 5000 ms',
    );
  });

  it.each([
    errorOf('duplicate key', '23505'),
    errorOf('a program has no 40001', 'EXIT40001'),
    errorOf('a defect'),
    new BatonError('conflict', 'taken'),
    'text',
  ])('is not said of %s: it would fail again', (error) => {
    expect(whyStoreUnavailable(error)).toBeNull();
  });
});
