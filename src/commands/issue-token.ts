import type { SessionClaims } from '../domain/run/session-token.ts';
import { issueToken } from '../store/around/session-tokens.ts';
import { inTransaction } from '../store/db/database.ts';
import { findSession } from '../store/session/sessions.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

export type IssueToken = Readonly<{ actor: Actor; sessionId: string }> &
  Pick<SessionClaims, 'canWrite' | 'grant' | 'expiresAtMs'>;

/**
 * Makes a token that opens one session. It ends with the actor's key.
 *
 * Locks nothing. Promises that no token leaves without its entry in the audit log.
 * @throws BatonError `not_found`
 */
export async function issueSessionToken(
  { db }: Pick<CommandPorts, 'db'>,
  { actor, sessionId, ...claims }: IssueToken,
): Promise<string> {
  const { tenantId, keyId } = actor;
  const token = await issueToken(db, { ...claims, sessionId, tenantId, keyId });
  await inTransaction(db, async (tx) => {
    await findSession(tx, tenantId, sessionId);
    await auditAct(tx, actor, 'session:token', `${sessionPath(sessionId)}/tokens`);
  });
  return token;
}
