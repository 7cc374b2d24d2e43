import { HEARTBEAT_INTERVAL_MS, LEASE_DURATION_MS } from '../../src/domain/tunables.ts';

/** A worker that hangs is replaced within seconds, so a schedule of faults takes no hours. */
export const SHORT_LEASES = { BATON_LEASE_DURATION_MS: '2000', BATON_HEARTBEAT_INTERVAL_MS: '300' };

/**
 * The leases that the product has by default. The dead are found by their locks: with short leases, the suite would not
 * see whether they are. And where nothing harms a worker, short leases tell only how long the machine kept it waiting.
 */
export const LONG_LEASES = {
  BATON_LEASE_DURATION_MS: String(LEASE_DURATION_MS),
  BATON_HEARTBEAT_INTERVAL_MS: String(HEARTBEAT_INTERVAL_MS),
};
