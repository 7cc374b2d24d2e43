import { formatId } from '../domain/ids.ts';
import type { UserPart } from '../domain/transcript/message.ts';
import { changeWaiting, type Removal, removeWaiting } from '../store/changes/waiting.ts';
import { inTransaction } from '../store/db/database.ts';
import type { WaitingMessage } from '../store/session/waiting-messages.ts';
import { afterCancelled, afterChanged, afterEvent } from './after-commit.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

type QueuedMessage = Readonly<{ actor: Actor; sessionId: string; messageId: string }>;

/** Changes of a queued message. Undefined: the field stays as it is. */
export type QueueChange = Readonly<{
  content: readonly UserPart[] | undefined;
  delivery: 'steer' | 'followup' | undefined;
}>;

const messagePath = (sessionId: string, messageId: string): string =>
  `${sessionPath(sessionId)}/queue/${formatId('message', messageId)}`;

/**
 * Edits a queued message: content or delivery.
 *
 * Locks the session. The audit log has the act.
 * @throws BatonError `not_found`; `conflict` (a run has taken the message up); `inbox_full`; `invalid_request` (an
 * invalid file)
 */
export async function changeQueued(
  ports: CommandPorts,
  { actor, sessionId, messageId }: QueuedMessage,
  change: QueueChange,
): Promise<WaitingMessage> {
  const { message, eventSeq } = await inTransaction(ports.db, async (tx) => {
    const ref = { tenantId: actor.tenantId, sessionId, messageId };
    const changed = await changeWaiting(tx, ref, { ...change, inboxLimits: ports.inboxLimits }, ports.newId());
    await auditAct(tx, actor, 'message:change', messagePath(sessionId, messageId));
    return changed;
  });
  afterEvent(ports, sessionId, { eventSeq });
  return message;
}

/**
 * Removes a queued message, or all (`messageId` null). A run that has lost its only message is cancelled.
 *
 * Locks the session. The audit log has the act.
 * @returns the ids of the removed messages, in their order
 * @throws BatonError `not_found`; `conflict` (a run has taken the message up)
 */
export async function removeQueued(
  ports: CommandPorts,
  { actor, sessionId, messageId }: Omit<QueuedMessage, 'messageId'> & Readonly<{ messageId: string | null }>,
): Promise<readonly string[]> {
  const removal = await inTransaction(ports.db, async (tx): Promise<Removal> => {
    const removed = await removeWaiting(tx, { tenantId: actor.tenantId, sessionId, messageId });
    if (messageId === null) await auditAct(tx, actor, 'queue:clear', `${sessionPath(sessionId)}/queue`);
    else await auditAct(tx, actor, 'message:remove', messagePath(sessionId, messageId));
    return removed;
  });
  if (removal.cancelled !== null) await afterCancelled(ports, removal.cancelled);
  await afterChanged(ports, sessionId, removal);
  return removal.ids;
}
