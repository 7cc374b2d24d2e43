import {
  ARRIVING_PER_HEAP,
  MAX_ARRIVING_BYTES,
  MAX_RESULT_BYTES,
  MIN_ARRIVING_BYTES,
  TENANT_ARRIVING_SHARE,
} from './tunables.ts';

/** Most bytes of tools' results that a process holds until they are stored: for all, and for one tenant. */
export type ArrivingBudget = Readonly<{ all: number; tenant: number }>;

export function arrivingBudget(heapBytes: number): ArrivingBudget {
  const all = Math.min(MAX_ARRIVING_BYTES, Math.max(MIN_ARRIVING_BYTES, Math.floor(heapBytes * ARRIVING_PER_HEAP)));
  return { all, tenant: Math.max(Math.floor(all * TENANT_ARRIVING_SHARE), MAX_RESULT_BYTES) };
}
