import type { RunLimits } from '../domain/run/run-limits.ts';
import { type AcceptedMessage, acceptMessage } from '../store/changes/inbox.ts';
import type { Tx } from '../store/db/database.ts';
import { refuseOverStorage } from '../store/session/quota.ts';
import { insertChildSession, type NewChildSession } from '../store/session/sessions.ts';
import type { CommandPorts } from './ports.ts';

export type BeginChild = Readonly<{
  tenantId: string;
  sessionId: string;
  /** The session to create. Null: the call goes on with one that exists. */
  childSession: NewChildSession | null;
  /** Made of the call, like all ids here: the same call begins once. */
  messageId: string;
  runId: string;
  task: string;
  limits: RunLimits;
}>;

/**
 * Begins the run of a call to another agent, in the caller's transaction. After the commit the caller passes the result
 * to `afterAccepted`.
 *
 * Locks the session of the child. Promises that session and message are stored once, within the tenant's quota. The audit
 * log has nothing of it: the call stands in the transcript of the parent.
 * @throws BatonError `session_busy` (another call is at work in the session); as `sendMessageIn`
 */
export async function beginChildIn(
  tx: Tx,
  { quota, inboxLimits }: CommandPorts,
  { tenantId, sessionId, childSession: newSession, messageId, runId, task, limits }: BeginChild,
): Promise<AcceptedMessage> {
  if (newSession !== null) {
    await refuseOverStorage(tx, tenantId, quota);
    await insertChildSession(tx, newSession);
  }
  return acceptMessage(tx, {
    ...{ tenantId, sessionId, messageId, runId, limits, quota, inboxLimits },
    content: [{ type: 'text', text: task }],
    delivery: 'reject',
  });
}
