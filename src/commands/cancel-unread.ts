import { inTransaction } from '../store/db/database.ts';
import { lockSession } from '../store/session/sessions.ts';
import { afterCancelled } from './after-commit.ts';
import type { Actor } from './audit.ts';
import { cancelRunIn } from './cancel.ts';
import type { CommandPorts } from './ports.ts';

type UnreadAnswer = Readonly<{
  actor: Actor;
  sessionId: string;
  runId: string;
  /** Hash of the conversation that the run answers. */
  questionHash: Uint8Array;
}>;

/**
 * Cancels the run of a conversation whose client has gone and cannot ask for the answer again. A run for which a newer
 * message waits goes on.
 *
 * Locks the session. The audit log has a cancel that changes something.
 * @throws BatonError `not_found`
 */
export async function cancelUnread(
  ports: CommandPorts,
  { actor, sessionId, runId, questionHash }: UnreadAnswer,
): Promise<void> {
  const outcome = await inTransaction(ports.db, async (tx) => {
    const { conversation_asked: newest } = await lockSession(tx, actor.tenantId, sessionId);
    if (newest === null || Buffer.compare(newest, questionHash) !== 0) return null;
    return cancelRunIn(tx, { actor, runId });
  });
  if (outcome !== null) await afterCancelled(ports, outcome);
}
