import type { FollowDeps } from '../facades/run-details.ts';
import { toSafeError } from '../runtime/log.ts';
import type { HttpDeps } from './http-deps.ts';

/** What following a run needs; reads that fail and are tried again are logged. */
export const followDeps = ({ db, bus, log }: HttpDeps): FollowDeps => ({
  db,
  bus,
  onError: (error) => log('warn', { event: 'database_connection_lost', error: toSafeError(error) }),
});
