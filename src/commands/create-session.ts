import type { Tx } from '../store/db/database.ts';
import { refuseOverStorage } from '../store/session/quota.ts';
import { insertSession, type NewSession, type SessionRow } from '../store/session/sessions.ts';
import type { CommandPorts } from './ports.ts';

/**
 * Creates a session, in the caller's transaction. Nothing follows the commit, and no audit entry: lists show the session
 * with its time.
 *
 * Locks nothing. Promises that the tenant's storage quota had room.
 * @throws BatonError `storage_exceeded`; `conflict` (its id or key is taken)
 */
export async function createSessionIn(
  tx: Tx,
  { quota }: Pick<CommandPorts, 'quota'>,
  session: NewSession,
): Promise<SessionRow> {
  await refuseOverStorage(tx, session.tenantId, quota);
  return insertSession(tx, session);
}
