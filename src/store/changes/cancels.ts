import { type Selectable, sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import { CANCELLED } from '../../domain/run/next-step.ts';
import { isTerminalRun, type RunStatus } from '../../domain/run/run.ts';
import { CANCELLED_BEFORE_START } from '../../domain/run/settlement.ts';
import { appendAudit, type NewAuditEntry, toStored } from '../around/audit.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import type { Tables } from '../db/tables.ts';
import { noteAsks, stopChildrenOf } from '../session/children.ts';
import { endRun } from '../session/end-run.ts';
import { findRun } from '../session/runs.ts';
import { type LockedSession, lockSession } from '../session/sessions.ts';
import { followRunEnd, readJob, resumeRun } from '../session/start-run.ts';
import { closeOpenCompaction } from '../transcript/compactions.ts';
import { closeOpenCalls, hasWorkOutside } from '../transcript/open-calls.ts';
import { dropWaiting } from './drop-waiting.ts';

export type CancelOutcome = Readonly<{
  runId: string;
  status: RunStatus;
  sessionId: string;
  eventSeq: number;
  /** A worker has claimed the run and must be told. */
  notify: boolean;
  /** True: this is the first cancel of a run that had not ended. */
  isNews: boolean;
  /** True: this request ended the run, because no worker had claimed it. */
  hasEnded: boolean;
  /**
   * Job to enqueue after the commit: of the follow-up run if this cancel ended the run, else of the run itself, because
   * a worker must settle its interrupted step. Null: none.
   */
  job: JobPayload | null;
}>;

/**
 * Requests that a run stops. A run without a worker ends at once if it has no interrupted step, or waits for answers to
 * calls that have begun no work elsewhere; otherwise it becomes `cancelling`.
 * @param audit is stored even if the run has ended before
 * @throws BatonError `not_found`
 */
export async function requestCancel(
  db: Db | Tx,
  tenantId: string,
  runId: string,
  audit?: NewAuditEntry,
): Promise<CancelOutcome> {
  const claimed = await cancelClaimed(db, tenantId, runId, audit);
  if (claimed !== null) return claimed;
  const { session_id: sessionId } = await findRun(db, tenantId, runId);
  return inTransaction(db, async (tx) => {
    if (audit !== undefined) await appendAudit(tx, audit);
    const session = await lockSession(tx, tenantId, sessionId);
    if (session.next_run_id === runId) {
      const eventSeq = await cancelPromised(tx, session, runId);
      return {
        runId,
        status: 'cancelled',
        sessionId,
        eventSeq,
        notify: false,
        isNews: true,
        hasEnded: true,
        job: null,
      };
    }
    return withFollowUp(tx, await cancelLocked(tx, sessionId, { eventSeqBefore: session.event_seq, runId }));
  });
}

/** Cancels a claimed run in one round trip, so that its model stops soon. Null: no worker has claimed it. */
async function cancelClaimed(
  db: Db | Tx,
  tenantId: string,
  runId: string,
  audit: NewAuditEntry | undefined,
): Promise<CancelOutcome | null> {
  const entry = audit === undefined ? null : toJson(toStored(audit));
  const { rows } = await sql<{ done: { sessionId: string; eventSeq: number } | null }>`
    select baton_cancel_claimed(${tenantId}, ${runId}, ${entry}::jsonb) as done`.execute(db);
  const done = rows[0]?.done ?? null;
  return done === null ? null : { ...toCancelling(done.sessionId, runId, done.eventSeq), notify: true };
}

const toCancelling = (sessionId: string, runId: string, eventSeq: number) =>
  ({
    runId,
    status: 'cancelling',
    sessionId,
    eventSeq,
    notify: false,
    isNews: true,
    hasEnded: false,
    job: null,
  }) as const;

/**
 * Cancels the active run of a session. `outcome` null: the session has none.
 * @param clearsQueue also removes all queued messages
 * @throws BatonError `not_found`
 */
export async function requestSessionCancel(
  db: Db | Tx,
  tenantId: string,
  sessionId: string,
  clearsQueue = false,
): Promise<Readonly<{ outcome: CancelOutcome | null; eventSeq: number }>> {
  return inTransaction(db, async (tx) => {
    const session = await lockSession(tx, tenantId, sessionId);
    const runId = session.active_run_id;
    await stopChildrenOf(tx, sessionId);
    if (runId === null && !clearsQueue) return { outcome: null, eventSeq: session.event_seq };
    // The session was resumed during a maintenance run: the promised run is cancelled as well.
    const { requested_resume: resume, next_run_id: next } = session;
    const before = resume === null || next === null ? session.event_seq : await cancelPromised(tx, session, next);
    const ended = runId === null ? null : await cancelLocked(tx, sessionId, { eventSeqBefore: before, runId });
    // Messages that were sent after an earlier cancel, which is still under way, are parked as well.
    if (ended?.status === 'cancelling') {
      await sql`update runs set cancel_inbox_seq = ${session.inbox_seq} where id = ${runId}`.execute(tx);
    }
    const dropped = clearsQueue ? await dropWaiting(tx, session, null) : null;
    const outcome = ended === null ? null : await withFollowUp(tx, ended);
    return { outcome, eventSeq: Math.max(before, dropped?.eventSeq ?? 0, outcome?.eventSeq ?? 0) };
  });
}

/** Ends a promised run and parks its messages. Returns the number of the session's last event. */
async function cancelPromised(tx: Tx, session: LockedSession, runId: string): Promise<number> {
  const { rows } = await sql<{ seq: number }>`
    select baton_cancel_promised(${session.id}, ${runId}) as seq`.execute(tx);
  const [row] = rows;
  if (row === undefined) throw new Error('baton_cancel_promised returned no row');
  return row.seq;
}

/** Starts the follow-up run, if the cancel ended the run. */
async function withFollowUp(tx: Tx, outcome: CancelOutcome): Promise<CancelOutcome> {
  const started = outcome.hasEnded ? await followRunEnd(tx, outcome.runId) : null;
  return started === null ? outcome : { ...outcome, ...started };
}

/**
 * Cancels a run for a caller that holds the session's lock and starts the follow-up run itself.
 * @param parks false: the messages that wait behind the run are not parked
 * @throws BatonError `not_found`
 */
export async function cancelLocked(
  tx: Tx,
  sessionId: string,
  { eventSeqBefore, runId, parks = true }: Readonly<{ eventSeqBefore: number; runId: string; parks?: boolean }>,
): Promise<CancelOutcome> {
  const markedSeq = await markClaimed(tx, sessionId, runId, parks);
  if (markedSeq !== null) return { ...toCancelling(sessionId, runId, markedSeq), notify: true };
  const run = await tx.selectFrom('runs').selectAll().where('id', '=', runId).forNoKeyUpdate().executeTakeFirst();
  if (run === undefined) throw new BatonError('not_found', `run ${formatId('run', runId)} does not exist`);
  if (isTerminalRun(run.status) || run.cancel_requested_at !== null) {
    const notify = run.status === 'cancelling';
    const { status } = run;
    return { runId, status, sessionId, eventSeq: eventSeqBefore, notify, isNews: false, hasEnded: false, job: null };
  }
  if (run.status === 'requires_action') {
    return (await hasWorkOutside(tx, runId)) ? cancelWithWork(tx, sessionId, runId, parks) : cancelNow(tx, run, parks);
  }
  if (!(await hasInterruptedStep(tx, runId, run.pending_no))) return cancelNow(tx, run, parks);
  const eventSeq = await beginCancel(tx, sessionId, runId, parks);
  return { ...toCancelling(sessionId, runId, eventSeq), job: await jobToSettle(tx, runId) };
}

/** Ends the wait of a run whose calls have begun work elsewhere: a worker stops that work and ends the run. */
async function cancelWithWork(tx: Tx, sessionId: string, runId: string, parks: boolean): Promise<CancelOutcome> {
  const job = await resumeRun(tx, sessionId, runId);
  await noteAsks(tx, runId, 0);
  return { ...toCancelling(sessionId, runId, await beginCancel(tx, sessionId, runId, parks)), job };
}

/**
 * Returns the number of the session's last event. Null: no worker has claimed the run, or it is already `cancelling`.
 */
async function markClaimed(tx: Tx, sessionId: string, runId: string, parks: boolean): Promise<number | null> {
  const { rows } = await sql<{ seq: number | null }>`
    select baton_mark_cancelling(${sessionId}, ${runId}, ${parks}) as seq`.execute(tx);
  return rows[0]?.seq ?? null;
}

/** A new job for a run that only has to be settled: its own may be last in the queue, and a throttled run has none. */
async function jobToSettle(tx: Tx, runId: string): Promise<JobPayload> {
  await sql`
    update runs set pending_dispatch = pending_dispatch + 1, pending_at = clock_timestamp(), next_check_at = null
    where id = ${runId}`.execute(tx);
  return readJob(tx, runId);
}

/** Makes an unclaimed run `cancelling`. Returns the number of the session's last event. */
async function beginCancel(tx: Tx, sessionId: string, runId: string, parks: boolean): Promise<number> {
  const { rows } = await sql<{ seq: number }>`
    select baton_begin_cancel(${sessionId}, ${runId}, ${parks}) as seq`.execute(tx);
  const [row] = rows;
  if (row === undefined) throw new Error('baton_begin_cancel returned no row');
  return row.seq;
}

/** Ends a run that no worker has claimed and that has nothing to settle, except the calls that it waits for. */
async function cancelNow(
  tx: Tx,
  { id: runId, session_id: sessionId, status }: Pick<Selectable<Tables['runs']>, 'id' | 'session_id' | 'status'>,
  parks: boolean,
): Promise<CancelOutcome> {
  await sql`
    update runs set cancel_requested_at = clock_timestamp(),
      cancel_inbox_seq = case when ${parks} then (select inbox_seq from sessions where id = ${sessionId}) else 0 end
    where id = ${runId}`.execute(tx);
  const error = { code: 'conflict', message: 'The run was cancelled.' } as const;
  const waits = status === 'requires_action';
  const closed = waits ? (await closeOpenCalls(tx, runId, CANCELLED_BEFORE_START)).events : [];
  const cut = await closeOpenCompaction(tx, sessionId, error);
  const eventSeq = await endRun(tx, runId, CANCELLED, [...closed, ...cut]);
  return { runId, status: 'cancelled', sessionId, eventSeq, notify: false, isNews: true, hasEnded: true, job: null };
}

async function hasInterruptedStep(tx: Tx, runId: string, stepNo: number): Promise<boolean> {
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
