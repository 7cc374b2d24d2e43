import type { HttpDeps } from '../http/http-deps.ts';
import { toSafeError } from '../platform/log.ts';
import type { FollowDeps } from './run-details.ts';

/** Dependencies of `followRun`. A read that fails is logged and tried again. */
export const followDeps = ({ db, bus, log }: HttpDeps): FollowDeps => ({
  db,
  bus,
  onError: (error) => log('warn', { event: 'database_connection_lost', error: toSafeError(error) }),
});
