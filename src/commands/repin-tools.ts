import type { Tx } from '../store/db/database.ts';
import { replacePinnedTools } from '../store/work/pinned-tools.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';

type Definitions = ReturnType<Parameters<typeof replacePinnedTools>[2]>;

/**
 * Accepts the tool definitions that the MCP servers of a session offer now, in the caller's transaction. After the commit
 * the caller passes the result to `afterEvent`.
 *
 * Locks the session. The audit log has the act, also where nothing has changed.
 * @param session.agentVersion the version of the agent whose tools the caller has pinned
 * @param next derives the new definitions from the present ones
 * @throws BatonError `not_found`; `conflict` (the session has another agent meanwhile); errors of `next`
 */
export async function repinToolsIn(
  tx: Tx,
  { actor, sessionId, agentVersion }: Readonly<{ actor: Actor; sessionId: string; agentVersion: string }>,
  next: (current: unknown) => Definitions,
): Promise<Readonly<{ eventSeq: number | null }>> {
  const eventSeq = await replacePinnedTools(tx, { tenantId: actor.tenantId, sessionId, agentVersion }, next);
  await auditAct(tx, actor, 'session:repin', `${sessionPath(sessionId)}/repin`);
  return { eventSeq };
}
