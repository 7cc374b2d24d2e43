import { isTenantId } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { MAX_TENANT_ID_CHARS } from '../domain/tunables.ts';

/** A program that forgets the name would otherwise see an empty tenant. @throws BatonError `invalid_request` */
export function refuseNoTenant(tenantId: unknown): void {
  if (isTenantId(tenantId)) return;
  const words = `expected the name of a tenant, 1 to ${MAX_TENANT_ID_CHARS} characters without control characters`;
  throw new BatonError('invalid_request', `tenantId: ${words}`);
}
