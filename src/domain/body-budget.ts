import {
  BODIES_PER_HEAP,
  FORM_BYTES,
  MAX_BLOB_BYTES,
  MAX_BODIES_BYTES,
  MIN_BODIES_BYTES,
  STRANGER_BODIES_BYTES,
  STRANGERS_BODIES_BYTES,
  TENANT_BODIES_SHARE,
} from './tunables.ts';

/**
 * Most bytes of request bodies that a process holds: of all tenants and of one, and, apart from those, of all callers
 * without a key and of one address.
 */
export type BodyBudget = Readonly<{ tenants: number; tenant: number; strangers: number; stranger: number }>;

/** @param configuredBytes bytes for all tenants; absent: by the heap */
export function bodyBudget(heapBytes: number, configuredBytes?: number): BodyBudget {
  const byHeap = Math.floor(heapBytes * BODIES_PER_HEAP);
  const tenants = configuredBytes ?? Math.min(MAX_BODIES_BYTES, Math.max(MIN_BODIES_BYTES, byHeap));
  return {
    tenants,
    tenant: Math.max(Math.floor(tenants * TENANT_BODIES_SHARE), MAX_BLOB_BYTES + FORM_BYTES),
    strangers: STRANGERS_BODIES_BYTES,
    stranger: STRANGER_BODIES_BYTES,
  };
}
