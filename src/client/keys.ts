import type { ApiKeyPage } from './api.ts';
import type { CallOptions } from './call-options.ts';
import type { NewApiKey } from './contract.ts';
import { pathOf, type Transport } from './transport.ts';

/** A key that was made. `key` is its secret, which is never shown again. */
export type MadeApiKey = Readonly<{ id: string; key: string; expiresAt: string | null }>;

/** All need the scope `admin`. */
export type KeyMethods = Readonly<{
  /** The keys of the tenant, newest first, also those that are revoked or have expired. */
  list: (
    options?: CallOptions & Readonly<{ cursor?: string | undefined; limit?: number | undefined }>,
  ) => Promise<ApiKeyPage>;
  /** Makes a key with scopes that the caller has; by default `read` and `write`. Never sent twice. */
  create: (key: NewApiKey, options?: CallOptions) => Promise<MadeApiKey>;
  /** Revokes a key with its tokens and logins. The caller's own is refused. */
  revoke: (keyId: string, options?: CallOptions) => Promise<void>;
}>;

export function keyMethods({ call }: Transport): KeyMethods {
  return {
    list: ({ signal, ...query } = {}) => call({ method: 'GET', path: '/v1/keys', query, signal, isRepeatable: true }),
    create: (body, { signal } = {}) => call({ method: 'POST', path: '/v1/keys', body, signal, isRepeatable: false }),
    revoke: (id, { signal } = {}) =>
      call({ method: 'POST', path: pathOf`/v1/keys/${id}/revoke`, signal, isRepeatable: false }),
  };
}
