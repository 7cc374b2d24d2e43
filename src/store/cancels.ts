import { sql } from 'kysely';
import { BatonError } from '../domain/errors.ts';
import type { NewEvent } from '../domain/events.ts';
import { formatId } from '../domain/ids.ts';
import { isTerminalRun, type RunStatus } from '../domain/run.ts';
import { CANCELLED_BEFORE_START } from '../domain/settlement.ts';
import { closeOpenCompaction } from './compactions.ts';
import type { Db, Tx } from './database.ts';
import { dropWaiting } from './drop-waiting.ts';
import { appendEvents } from './events.ts';
import { closeOpenCalls } from './open-calls.ts';
import { findRun } from './runs.ts';
import { type LockedSession, lockSession } from './sessions.ts';

export type CancelOutcome = Readonly<{
  runId: string;
  status: RunStatus;
  sessionId: string;
  /** The session's last event after this. */
  eventSeq: number;
  /** A worker has the run and must be told. */
  notify: boolean;
  /** This request ended the run: nobody had it. */
  hasEnded: boolean;
}>;

/**
 * Requests that a run stop. A run that nobody has and that left nothing to settle, or that waits for answers, is cancelled
 * at once; any other gets the flag and becomes `cancelling`. A run that has ended stays as it is.
 * @throws BatonError `not_found`
 */
export async function requestCancel(db: Db, tenantId: string, runId: string): Promise<CancelOutcome> {
  const { session_id: sessionId } = await findRun(db, tenantId, runId);
  return db.transaction().execute(async (tx) => {
    const session = await lockSession(tx, tenantId, sessionId);
    if (session.next_run_id === runId) return cancelPromised(tx, session, runId);
    return cancelLocked(tx, sessionId, session.event_seq, runId);
  });
}

/**
 * The same for whatever run the session has at this moment; null when it has none.
 * @param clearsQueue removes what waits as well
 * @throws BatonError `not_found`
 */
export async function requestSessionCancel(
  db: Db,
  tenantId: string,
  sessionId: string,
  clearsQueue = false,
): Promise<Readonly<{ outcome: CancelOutcome | null; eventSeq: number }>> {
  return db.transaction().execute(async (tx) => {
    const session = await lockSession(tx, tenantId, sessionId);
    const runId = session.active_run_id;
    const outcome = runId === null ? null : await cancelLocked(tx, sessionId, session.event_seq, runId);
    // What was sent after an earlier cancel that is still under way is meant by this one.
    if (outcome?.status === 'cancelling') {
      await sql`update runs set cancel_requested_at = clock_timestamp() where id = ${runId}`.execute(tx);
    }
    const eventSeq = outcome?.eventSeq ?? session.event_seq;
    if (!clearsQueue) return { outcome, eventSeq };
    return { outcome, eventSeq: (await dropWaiting(tx, session, null))?.eventSeq ?? eventSeq };
  });
}

/** A run that had not begun ends before it does. What waited for it is parked, as after every cancel. */
async function cancelPromised(tx: Tx, session: LockedSession, runId: string): Promise<CancelOutcome> {
  await sql`
    insert into runs (id, tenant_id, session_id, status, cancel_requested_at, finished_at)
    values (${runId}, ${session.tenant_id}, ${session.id}, 'cancelled', clock_timestamp(), clock_timestamp())`.execute(
    tx,
  );
  await sql`update sessions set next_run_id = null where id = ${session.id}`.execute(tx);
  await sql`
    update inbox set run_id = ${runId}
    where session_id = ${session.id} and consumed_message_seq is null and run_id is null`.execute(tx);
  const eventSeq = await appendEvents(tx, session.id, runId, [
    { type: 'run:cancelled', data: { runId: formatId('run', runId), stillRan: [] } },
  ]);
  return { runId, status: 'cancelled', sessionId: session.id, eventSeq, notify: false, hasEnded: true };
}

/** The same for whoever has the session's lock. */
export async function cancelLocked(
  tx: Tx,
  sessionId: string,
  eventSeqBefore: number,
  runId: string,
): Promise<CancelOutcome> {
  const run = await tx.selectFrom('runs').selectAll().where('id', '=', runId).forNoKeyUpdate().executeTakeFirst();
  if (run === undefined) throw new BatonError('not_found', `run ${formatId('run', runId)} does not exist`);
  if (isTerminalRun(run.status) || run.cancel_requested_at !== null) {
    const notify = run.status === 'cancelling';
    return { runId, status: run.status, sessionId, eventSeq: eventSeqBefore, notify, hasEnded: false };
  }
  if (run.status === 'requires_action') {
    const closed = await closeOpenCalls(tx, runId, CANCELLED_BEFORE_START);
    return { ...(await cancelNow(tx, sessionId, runId, closed)), runId, sessionId, notify: false, hasEnded: true };
  }
  if (run.claim_id === null && !(await hasLeftovers(tx, runId, run.pending_no))) {
    return { ...(await cancelNow(tx, sessionId, runId)), runId, sessionId, notify: false, hasEnded: true };
  }
  await tx
    .updateTable('runs')
    // One that was held back has no job: the reconciler adds it, and its claim needs no slot any more.
    .set({ status: 'cancelling', cancel_requested_at: sql`clock_timestamp()`, held_back_at: null })
    .where('id', '=', runId)
    .execute();
  const eventSeq = await appendEvents(tx, sessionId, runId, [
    { type: 'run:cancelling', data: { runId: formatId('run', runId) } },
  ]);
  return { runId, status: 'cancelling', sessionId, eventSeq, notify: true, hasEnded: false };
}

/** @param before events of what the end of the run brings with it */
async function cancelNow(
  tx: Tx,
  sessionId: string,
  runId: string,
  before: readonly NewEvent[] = [],
): Promise<{ status: RunStatus; eventSeq: number }> {
  await tx
    .updateTable('runs')
    .set((eb) => ({
      status: 'cancelled',
      cancel_requested_at: sql`clock_timestamp()`,
      finished_at: sql`clock_timestamp()`,
      pending_kind: null,
      held_back_at: null,
      approval_expires_at: null,
      epoch: eb('epoch', '+', 1),
    }))
    .where('id', '=', runId)
    .execute();
  await tx
    .updateTable('sessions')
    .set((eb) => ({ status: 'idle', active_run_id: null, epoch: eb('epoch', '+', 1) }))
    .where('id', '=', sessionId)
    .execute();
  const error = { code: 'conflict', message: 'The run was cancelled.' } as const;
  const eventSeq = await appendEvents(tx, sessionId, runId, [
    ...before,
    ...(await closeOpenCompaction(tx, sessionId, error)),
    { type: 'run:cancelled', data: { runId: formatId('run', runId), stillRan: [] } },
  ]);
  return { status: 'cancelled', eventSeq };
}

async function hasLeftovers(tx: Tx, runId: string, stepNo: number): Promise<boolean> {
  const row = await tx
    .selectFrom('messages')
    .select('id')
    .where('run_id', '=', runId)
    .where('step_no', '=', stepNo)
    .where('role', '=', 'assistant')
    .where('superseded', '=', false)
    .executeTakeFirst();
  return row !== undefined;
}
