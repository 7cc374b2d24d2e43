import { afterChanged } from '../commands/after-commit.ts';
import { answerParentIn, noticeParentIn, tellRootOfAsks } from '../commands/tell-parent.ts';
import { formatCallId, formatId } from '../domain/ids.ts';
import { backgroundAnswer, type ChildResult, childAnswer, endNotice } from '../domain/run/child.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { derivedId } from '../platform/derived-id.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { type Child, lockChild, noteAnnounced, noteDelivered, readChildCall } from '../store/session/children.ts';
import { type LockedSession, lockSession } from '../store/session/sessions.ts';
import { appendEvents } from '../store/transcript/events.ts';
import type { DelegationDeps } from './deps.ts';

type Told = Readonly<{ eventSeq: number; job: JobPayload | null }>;

/** Tells the parent's readers that the child runs. */
export async function tellBegun(deps: DelegationDeps, listedChild: Child): Promise<void> {
  await underParent(deps, listedChild, async (tx, child) => {
    if (child.isTold || (child.state !== 'running' && child.state !== 'ended')) return null;
    await noteAnnounced(tx, child);
    const answered = child.mode === 'wait' ? null : await answerParentIn(tx, child, backgroundAnswer(child));
    const started: NewEvent = { type: 'child:started', data: { ...placeOf(child), mode: child.mode } };
    return {
      eventSeq: await appendEvents(tx, child.parentSessionId, child.parentRunId, [started]),
      job: answered?.job ?? null,
    };
  });
}

/**
 * Gives the result of a child to the call that began it, once: the answer, what the child used and its new state are one
 * transaction under the lock of the parent's session. If the call no longer waits, only readers of the events are told.
 */
export async function deliverResult(deps: DelegationDeps, listedChild: Child): Promise<void> {
  await underParent(deps, listedChild, async (tx, child, session) => {
    const { result } = child;
    if (child.state !== 'ended' || result === null) return null;
    // The call of one that was begun in the background has its answer already.
    const isNotice = child.mode === 'background' && child.isTold;
    const answered = isNotice
      ? await giveNotice(deps, tx, { session, child, result })
      : await answerParentIn(tx, child, childAnswer(child, result));
    await noteDelivered(tx, child, answered === null ? 'dropped' : 'delivered');
    const { status, error, steps, tokens, costUsd } = result;
    const used = { steps, tokens, costUsd };
    const ended: NewEvent = {
      type: 'child:ended',
      data: { ...placeOf(child), status, ...(error != null && { error }), ...used },
    };
    const eventSeq = await appendEvents(tx, child.parentSessionId, child.parentRunId, [ended]);
    return { eventSeq, job: answered?.job ?? null };
  });
}

/** A message of the service, which starts a run if the parent is idle. Null: the parent no longer waits for the child. */
async function giveNotice(
  deps: DelegationDeps,
  tx: Tx,
  { session, child, result }: Readonly<{ session: LockedSession; child: Child; result: ChildResult }>,
): Promise<Readonly<{ job: JobPayload | null }> | null> {
  if (child.stopRequested) return null;
  const idOf = (what: string): string => derivedId('child', child.messageId, String(child.index), what);
  const ids = { tenantId: child.tenantId, messageId: idOf('notice'), runId: idOf('notice run') };
  return noticeParentIn(tx, deps, session, { ...ids, text: endNotice(child.agent, child, result) });
}

/** Tells the root, where people look, which calls of the child wait for them, and whether any of the tree still do. */
export async function tellAsks(deps: DelegationDeps, child: Child): Promise<void> {
  const { rootSessionId } = await readChildCall(deps.db, child);
  await tellRootOfAsks(deps, child, rootSessionId);
}

const placeOf = (child: Child) => ({
  runId: formatId('run', child.parentRunId),
  id: formatCallId(child.messageId, child.index),
  toolName: child.toolName,
  agent: child.agent,
  sessionId: formatId('session', child.sessionId),
  childRunId: formatId('run', child.runId),
});

/** @param change gets the child as it is under the lock; null: there is nothing to tell */
async function underParent(
  deps: DelegationDeps,
  listedChild: Child,
  change: (tx: Tx, child: Child, session: LockedSession) => Promise<Told | null>,
): Promise<void> {
  const { tenantId, parentSessionId } = listedChild;
  const outcome = await inTransaction(deps.db, async (tx) => {
    const session = await lockSession(tx, tenantId, parentSessionId);
    const child = await lockChild(tx, listedChild);
    return child === null ? null : change(tx, child, session);
  });
  if (outcome !== null) await afterChanged(deps, parentSessionId, outcome);
}
