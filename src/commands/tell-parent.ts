import type { JobPayload } from '../domain/run/job.ts';
import type { OutputAnswer } from '../domain/transcript/required-action.ts';
import { answerChildCall } from '../store/changes/call-answers.ts';
import { acceptLocked } from '../store/changes/inbox.ts';
import { tellAsksAt } from '../store/changes/root-asks.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { type Child, lockChild } from '../store/session/children.ts';
import { NO_QUOTA } from '../store/session/quota.ts';
import { type LockedSession, lockSession } from '../store/session/sessions.ts';
import { afterEvent } from './after-commit.ts';
import type { CommandPorts } from './ports.ts';

type Followed = Readonly<{ job: JobPayload | null }>;

/**
 * Gives the call that began a child its result, in the transaction of a caller that holds the lock of the parent's
 * session. The last answer lets the parent's run go on. Null: the call waits no longer.
 */
export const answerParentIn = (tx: Tx, child: Child, answer: OutputAnswer): Promise<Followed | null> =>
  answerChildCall(tx, child, answer);

export type ParentNotice = Readonly<{ tenantId: string; messageId: string; runId: string; text: string }>;

/**
 * Sends a notice of the service to the session of a parent, in the transaction of a caller that holds its lock. It starts
 * a run if the parent is idle. No quota refuses it: the work that it tells of is done.
 * @throws BatonError `inbox_full`, `conflict` (the id is taken)
 */
export function noticeParentIn(
  tx: Tx,
  { inboxLimits }: CommandPorts,
  session: LockedSession,
  { text, ...ids }: ParentNotice,
): Promise<Followed> {
  return acceptLocked(tx, session, {
    ...ids,
    ...{ sessionId: session.id, content: [{ type: 'text', text }], origin: 'system' },
    ...{ quota: NO_QUOTA, inboxLimits },
  });
}

/**
 * Tells the root of a tree, where people look, which calls of a child wait for them, and whether any of the tree still
 * do.
 *
 * Locks the session of the root, then the child.
 * @throws BatonError `not_found` (the root is gone)
 */
export async function tellRootOfAsks(ports: CommandPorts, child: Child, rootSessionId: string): Promise<void> {
  const eventSeq = await inTransaction(ports.db, async (tx) => {
    const root = await lockSession(tx, child.tenantId, rootSessionId);
    const locked = await lockChild(tx, child);
    return locked === null ? null : tellAsksAt(tx, locked, root);
  });
  afterEvent(ports, rootSessionId, { eventSeq });
}
