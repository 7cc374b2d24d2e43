import { type CurrentAgent, type KeptAgent, type SwitchedAgent, switchAgent } from '../store/changes/switch-agent.ts';
import type { Tx } from '../store/db/database.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';

export type AgentNow = CurrentAgent;
export type AgentNext = KeptAgent;

/**
 * Gives a session another agent or model from its next step on, in the caller's transaction. After the commit the caller
 * passes the result to `afterEvent`.
 *
 * Locks the session. The audit log has the act, also where the session had the agent already.
 * @param next derives the new agent from the present one
 * @throws BatonError `not_found`; errors of `next`
 */
export async function switchAgentIn(
  tx: Tx,
  { actor, sessionId }: Readonly<{ actor: Actor; sessionId: string }>,
  next: (current: AgentNow) => AgentNext,
): Promise<SwitchedAgent> {
  const switched = await switchAgent(tx, { tenantId: actor.tenantId, sessionId }, next);
  await auditAct(tx, actor, 'session:agent', `${sessionPath(sessionId)}/agent`);
  return switched;
}
