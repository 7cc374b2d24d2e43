import { inTransaction } from '../store/db/database.ts';
import { deleteSession as removeSession, type SessionRow, updateSession } from '../store/session/sessions.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

type OfSession = Readonly<{ actor: Actor; sessionId: string }>;
type Ports = Pick<CommandPorts, 'db'>;

/** Changes of a session. Undefined: the field stays as it is. */
export type SessionChange = Readonly<{
  title: string | null | undefined;
  metadata: Readonly<Record<string, string>> | undefined;
  /** Retention may delete the session after this time. Null: only by its age. */
  expiresAt: Date | null | undefined;
}>;

/**
 * Changes title, metadata or expiry of a session. Nothing follows the commit.
 *
 * Locks the session. The audit log has the act.
 * @throws BatonError `not_found`
 */
export function changeSession(
  { db }: Ports,
  { actor, sessionId }: OfSession,
  change: SessionChange,
): Promise<SessionRow> {
  return inTransaction(db, async (tx) => {
    const changed = await updateSession(tx, actor.tenantId, sessionId, change);
    await auditAct(tx, actor, 'session:update', sessionPath(sessionId));
    return changed;
  });
}

/**
 * Deletes a session with all its data. Sessions below it stay. Nothing follows the commit.
 *
 * Locks the session. The audit log has the act.
 * @throws BatonError `not_found`; `conflict` (a run is active, in it or in a session below it)
 */
export async function deleteSession({ db }: Ports, { actor, sessionId }: OfSession): Promise<void> {
  await inTransaction(db, async (tx) => {
    await removeSession(tx, actor.tenantId, sessionId);
    await auditAct(tx, actor, 'session:delete', sessionPath(sessionId));
  });
}
