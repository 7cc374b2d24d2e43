import type { HttpDeps } from '../http/http-deps.ts';
import { toSafeError } from '../platform/log.ts';
import type { FollowDeps } from './run-details.ts';

/** What following a run needs; reads that fail and are tried again are logged. */
export const followDeps = ({ db, bus, log }: HttpDeps): FollowDeps => ({
  db,
  bus,
  onError: (error) => log('warn', { event: 'database_connection_lost', error: toSafeError(error) }),
});
