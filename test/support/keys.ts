import type { Scope } from '../../src/domain/access.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createApiKey } from '../../src/store/around/api-keys.ts';
import type { Db } from '../../src/store/db/database.ts';

export type TestKey = Readonly<{ id: string; secret: string; headers: Record<string, string> }>;

/** A key for a tenant; `read` and `write`, and for ever, unless told otherwise. */
export async function createTestKey(
  db: Db,
  tenantId = 'default',
  scopes: readonly Scope[] = ['read', 'write'],
  expiresAt: Date | null = null,
): Promise<TestKey> {
  const id = newId();
  const key = { id, tenantId, name: `for ${tenantId}`, scopes, expiresAt };
  const secret = await db.transaction().execute((tx) => createApiKey(tx, key));
  return { id, secret, headers: { authorization: `Bearer ${secret}` } };
}
