import { type Reverted, revertSession, unrevertSession } from '../store/changes/revert.ts';
import type { Tx } from '../store/db/database.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';

/** The messages that left the transcript, or came back. */
export type RevertedSession = Reverted;

type OfSession = Readonly<{ actor: Actor; sessionId: string }>;

/**
 * Takes what came after a message out of a session, in the caller's transaction. After the commit the caller passes the
 * result to `afterEvent`.
 *
 * Locks the session. The audit log has the act.
 * @throws BatonError `not_found`; `conflict` (an unfinished message); `session_busy`
 */
export async function revertSessionIn(
  tx: Tx,
  { actor, sessionId, messageId }: OfSession & Readonly<{ messageId: string }>,
): Promise<RevertedSession> {
  const reverted = await revertSession(tx, { tenantId: actor.tenantId, sessionId, messageId });
  await auditAct(tx, actor, 'session:revert', `${sessionPath(sessionId)}/revert`);
  return reverted;
}

/**
 * Undoes the newest revert of a session, in the caller's transaction. After the commit the caller passes the result to
 * `afterEvent`.
 *
 * Locks the session. The audit log has the act.
 * @throws BatonError `not_found`; `conflict` (there is none, or a message has come since); `session_busy`
 */
export async function unrevertSessionIn(tx: Tx, { actor, sessionId }: OfSession): Promise<RevertedSession> {
  const restored = await unrevertSession(tx, { tenantId: actor.tenantId, sessionId });
  await auditAct(tx, actor, 'session:unrevert', `${sessionPath(sessionId)}/unrevert`);
  return restored;
}
