import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import { createApiKey, makeRoomForKey, type NewApiKey, revokeApiKey } from '../store/around/api-keys.ts';
import { inTransaction } from '../store/db/database.ts';
import { type Actor, auditAct, serviceActor } from './audit.ts';
import type { CommandPorts } from './ports.ts';

const keyPath = (keyId: string): string => `/v1/keys/${formatId('key', keyId)}`;

/** The secret of a key is nowhere but here: the database has its hash. */
export type CreatedKey = Readonly<{ id: string; secret: string }>;

/**
 * Makes an API key for the actor's tenant.
 *
 * Locks the tenant's list of keys. Promises that the audit log has the act.
 * @throws BatonError `conflict` (the tenant has as many as it may)
 */
export function createKey(
  { db, newId }: Pick<CommandPorts, 'db' | 'newId'>,
  { actor, ...key }: Readonly<{ actor: Actor }> & Omit<NewApiKey, 'id' | 'tenantId'>,
): Promise<CreatedKey> {
  const id = newId();
  return inTransaction(db, async (tx) => {
    await makeRoomForKey(tx, actor.tenantId);
    const secret = await createApiKey(tx, { ...key, id, tenantId: actor.tenantId });
    await auditAct(tx, actor, 'key:create', keyPath(id));
    return { id, secret };
  });
}

/**
 * Revokes an API key: its next request is refused, and so are the tokens and logins that it made.
 *
 * Locks the key. The audit log of its tenant has the act.
 * @param request.actor Null: the operator at the command line, who may revoke the keys of all tenants
 * @throws BatonError `not_found`, also for a key of another tenant; `conflict` (it was revoked already, or is the
 * actor's own)
 */
export async function revokeKey(
  { db }: Pick<CommandPorts, 'db'>,
  { actor, keyId }: Readonly<{ actor: Actor | null; keyId: string }>,
): Promise<void> {
  if (actor?.keyId === keyId) {
    throw new BatonError('conflict', 'a key does not revoke itself: do it with another key, or at the command line');
  }
  await inTransaction(db, async (tx) => {
    const tenantId = await revokeApiKey(tx, keyId, actor?.tenantId);
    await auditAct(tx, actor ?? serviceActor(tenantId), 'key:revoke', keyPath(keyId));
  });
}
