import type { CompactedMessage } from '../domain/transcript/conversation.ts';
import { requestMaintenance } from '../store/changes/maintenance.ts';
import { inTransaction } from '../store/db/database.ts';
import { adaptAgent, importConversation } from '../store/session/conversations.ts';
import { refuseOverQuota } from '../store/session/quota.ts';
import type { NewSession } from '../store/session/sessions.ts';
import { afterChanged } from './after-commit.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';
import { createSessionIn } from './create-session.ts';
import type { CommandPorts } from './ports.ts';

type CompactConversation = Readonly<{
  actor: Actor;
  /** A session for the compaction alone, not yet stored. */
  session: NewSession;
  messages: readonly CompactedMessage[];
  /** Derives the session's agent for this request. */
  adapt: (base: unknown) => Promise<unknown>;
}>;

/**
 * Compacts a conversation in a session of its own, whose run ends with the compaction. The session that the messages
 * come from, if any, does not change.
 *
 * Locks nothing that others know. Promises that the tenant's quotas had room, and that the audit log has the act.
 * @returns the id of the run
 * @throws BatonError `quota_exceeded`, `storage_exceeded`, `invalid_request` (an invalid file); errors of `adapt`
 */
export async function compactConversation(
  ports: CommandPorts,
  { actor, session, messages, adapt }: CompactConversation,
): Promise<string> {
  const { tenantId } = actor;
  await refuseOverQuota(ports.db, tenantId, ports.quota);
  const requested = await inTransaction(ports.db, async (tx) => {
    await createSessionIn(tx, ports, session);
    await importConversation(tx, session, messages);
    await adaptAgent(tx, { id: session.id, agent_base: null, agent_snapshot: session.agentSnapshot }, adapt);
    const work = { tenantId, sessionId: session.id, kind: 'compaction' as const, runId: ports.newId() };
    const maintenance = await requestMaintenance(tx, work);
    await auditAct(tx, actor, 'session:compact', `${sessionPath(session.id)}/compact`);
    return maintenance;
  });
  await afterChanged(ports, session.id, requested);
  return requested.runId;
}
