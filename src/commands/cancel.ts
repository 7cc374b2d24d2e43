import { type CancelOutcome, requestCancel, requestSessionCancel } from '../store/changes/cancels.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { afterCancelled, afterEvent } from './after-commit.ts';
import { type Actor, auditAct, auditEntry, runPath, sessionPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

type CancelRun = Readonly<{ actor: Actor; runId: string }>;

const entryOf = ({ actor, runId }: CancelRun) => auditEntry(actor, 'run:cancel', `${runPath(runId)}/cancel`);

/**
 * Cancels a run. A run that has ended stays as it is; the audit log has the request in any case.
 *
 * Takes one round trip for a claimed run, so that its model stops soon; otherwise locks the session.
 * @throws BatonError `not_found`
 */
export async function cancelRun(ports: CommandPorts, request: CancelRun): Promise<CancelOutcome> {
  const outcome = await requestCancel(ports.db, request.actor.tenantId, request.runId, entryOf(request));
  await afterCancelled(ports, outcome);
  return outcome;
}

/**
 * Cancels a run in the caller's transaction, which passes the result to `afterCancelled` after the commit. Only a cancel
 * that changes something is in the audit log.
 * @throws BatonError `not_found`
 */
export async function cancelRunIn(tx: Tx, { actor, runId }: CancelRun): Promise<CancelOutcome> {
  const outcome = await requestCancel(tx, actor.tenantId, runId);
  if (outcome.isNews) await auditAct(tx, actor, 'run:cancel', `${runPath(runId)}/cancel`);
  return outcome;
}

/**
 * Cancels the active run of a session, and its children, also while the session is idle. Null: it had no active run.
 *
 * Locks the session. The audit log has the request in any case.
 * @param request.clearsQueue also removes the queued messages
 * @throws BatonError `not_found`
 */
export async function cancelSession(
  ports: CommandPorts,
  { actor, sessionId, clearsQueue = false }: Readonly<{ actor: Actor; sessionId: string; clearsQueue?: boolean }>,
): Promise<CancelOutcome | null> {
  const { outcome, eventSeq } = await inTransaction(ports.db, async (tx) => {
    const requested = await requestSessionCancel(tx, actor.tenantId, sessionId, clearsQueue);
    await auditAct(tx, actor, 'session:cancel', `${sessionPath(sessionId)}/cancel`);
    return requested;
  });
  afterEvent(ports, sessionId, { eventSeq });
  if (outcome === null) ports.lookAfterChildren();
  else await afterCancelled(ports, outcome);
  return outcome;
}
