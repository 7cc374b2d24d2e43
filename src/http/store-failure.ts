import { whyStoreUnavailable } from '../store/db/store-unavailable.ts';
import { ProblemError } from './bodies/problem.ts';

const UNIQUE_VIOLATION = '23505';

/** The problem behind an error of the database; null: a defect. */
export function toStoreProblem(error: unknown): ProblemError | null {
  if (error instanceof Error && 'code' in error && error.code === UNIQUE_VIOLATION) {
    return new ProblemError('conflict', 'Something with this id exists already', { cause: error });
  }
  const why = whyStoreUnavailable(error);
  if (why === null) return null;
  return new ProblemError('store_unavailable', `${why}; try again`, { cause: error, headers: { 'retry-after': '1' } });
}
