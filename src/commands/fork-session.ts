import { forkSession } from '../store/changes/fork.ts';
import type { Tx } from '../store/db/database.ts';
import { refuseOverStorage } from '../store/session/quota.ts';
import type { SessionRow } from '../store/session/sessions.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

export type ForkSession = Readonly<{
  actor: Actor;
  /** The session to copy. */
  sessionId: string;
  /** The last message to copy. Null: the last finished one. */
  atMessageId: string | null;
  title: string | null | undefined;
  metadata: Readonly<Record<string, string>> | undefined;
}>;

/**
 * Copies a session up to a message, in the caller's transaction. Nothing follows the commit.
 *
 * Locks the session, which does not change. Promises that the tenant's storage quota had room, and that the audit log has
 * the act.
 * @throws BatonError `not_found`, `conflict` (an unfinished message), `storage_exceeded`
 */
export async function forkSessionIn(
  tx: Tx,
  { quota, newId }: Pick<CommandPorts, 'quota' | 'newId'>,
  { actor, ...fork }: ForkSession,
): Promise<SessionRow> {
  await refuseOverStorage(tx, actor.tenantId, quota);
  const session = await forkSession(tx, { ...fork, tenantId: actor.tenantId, forkId: newId() });
  await auditAct(tx, actor, 'session:fork', `${sessionPath(fork.sessionId)}/fork`);
  return session;
}
