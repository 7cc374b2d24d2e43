import { sql } from 'kysely';
import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { isTerminalRun, type RunStatus } from '../domain/run/run.ts';
import { CANCELLED_BEFORE_START } from '../domain/run/settlement.ts';
import { appendAudit, type NewAuditEntry, toStored } from './audit.ts';
import { closeOpenCompaction } from './compactions.ts';
import { type Db, inTransaction, type Tx } from './database.ts';
import { dropWaiting } from './drop-waiting.ts';
import { appendEvents } from './events.ts';
import { toJson } from './json.ts';
import { closeOpenCalls } from './open-calls.ts';
import { findRun } from './runs.ts';
import { type LockedSession, lockSession } from './sessions.ts';
import { readJob, startRequested } from './start-run.ts';

export type CancelOutcome = Readonly<{
  runId: string;
  status: RunStatus;
  sessionId: string;
  /** The session's last event after this. */
  eventSeq: number;
  /** A worker has the run and must be told. */
  notify: boolean;
  /** This request is why it stops: it had not ended, and nobody had asked before. */
  isNews: boolean;
  /** This request ended the run: nobody had it. */
  hasEnded: boolean;
  /**
   * Of what was asked for while the run was active, and is done now that it has ended. Where it has not: of the run
   * itself, which nobody has and somebody must settle first.
   */
  job: JobPayload | null;
}>;

/**
 * Requests that a run stop. A run that nobody has and that left nothing to settle, or that waits for answers, is
 * cancelled at once; any other gets the flag and becomes `cancelling`. A run that has ended stays as it is.
 * @param audit is written down with it, whatever becomes of it
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
    return withRequested(tx, await cancelLocked(tx, sessionId, session.event_seq, runId));
  });
}

/** A run that a worker has, in one round trip: a model is to fall silent. Null: it is not as simple as that. */
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
 * The same for whatever run the session has at this moment; null when it has none.
 * @param clearsQueue removes what waits as well
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
    if (runId === null && !clearsQueue) return { outcome: null, eventSeq: session.event_seq };
    // Who resumed the session wanted it to go on after its clean-up.
    const { requested_resume: resume, next_run_id: next } = session;
    const before = resume === null || next === null ? session.event_seq : await cancelPromised(tx, session, next);
    const ended = runId === null ? null : await cancelLocked(tx, sessionId, before, runId);
    // What was sent after an earlier cancel that is still under way is meant by this one.
    if (ended?.status === 'cancelling') {
      await sql`update runs set cancel_inbox_seq = ${session.inbox_seq} where id = ${runId}`.execute(tx);
    }
    const dropped = clearsQueue ? await dropWaiting(tx, session, null) : null;
    const outcome = ended === null ? null : await withRequested(tx, ended);
    return { outcome, eventSeq: Math.max(before, dropped?.eventSeq ?? 0, outcome?.eventSeq ?? 0) };
  });
}

/**
 * A run that had not begun ends before it does. What waited for it is parked, as after every cancel. Returns
 * the session's last event.
 */
async function cancelPromised(tx: Tx, session: LockedSession, runId: string): Promise<number> {
  await sql`
    insert into runs (id, tenant_id, session_id, status, cancel_requested_at, finished_at)
    values (${runId}, ${session.tenant_id}, ${session.id}, 'cancelled', clock_timestamp(), clock_timestamp())`.execute(
    tx,
  );
  await sql`update sessions set next_run_id = null, requested_resume = null where id = ${session.id}`.execute(tx);
  await sql`
    update inbox set run_id = ${runId}
    where session_id = ${session.id} and consumed_message_seq is null and run_id is null`.execute(tx);
  return appendEvents(tx, session.id, runId, [
    { type: 'run:cancelled', data: { runId: formatId('run', runId), stillRan: [] } },
  ]);
}

/** What was asked for while a run was active that nobody had is done now that this is cancelled. */
async function withRequested(tx: Tx, outcome: CancelOutcome): Promise<CancelOutcome> {
  const started = outcome.hasEnded ? await startRequested(tx, outcome.sessionId) : null;
  return started === null ? outcome : { ...outcome, ...started };
}

/**
 * The same for whoever has the session's lock and says what follows a run that has ended.
 * @param parks whether what waits for the run after it stays where it is, as it does where
 * somebody wants the work to stop
 * @throws BatonError `not_found` for a run that is not there
 */
export async function cancelLocked(
  tx: Tx,
  sessionId: string,
  eventSeqBefore: number,
  runId: string,
  parks = true,
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
  if (run.status === 'requires_action') return cancelNow(tx, sessionId, runId, true);
  if (!(await hasInterruptedStep(tx, runId, run.pending_no))) return cancelNow(tx, sessionId, runId);
  await tx
    .updateTable('runs')
    .set({
      status: 'cancelling',
      cancel_requested_at: sql`clock_timestamp()`,
      cancel_inbox_seq: parks ? sql<number>`(select inbox_seq from sessions where id = ${sessionId})` : 0,
      throttled_at: null,
    })
    .where('id', '=', runId)
    .execute();
  const eventSeq = await appendEvents(tx, sessionId, runId, [
    { type: 'run:cancelling', data: { runId: formatId('run', runId) } },
  ]);
  return { ...toCancelling(sessionId, runId, eventSeq), job: await jobToSettle(tx, runId) };
}

/** Returns the session's last event; null where no worker has the run, or it is to stop already. */
async function markClaimed(tx: Tx, sessionId: string, runId: string, parks: boolean): Promise<number | null> {
  const { rows } = await sql<{ seq: number | null }>`
    select baton_mark_cancelling(${sessionId}, ${runId}, ${parks}) as seq`.execute(tx);
  return rows[0]?.seq ?? null;
}

/**
 * A job of its own for a run that is only to be settled: the one that it has may stand behind all others, and one
 * that was held back has none.
 */
async function jobToSettle(tx: Tx, runId: string): Promise<JobPayload> {
  await sql`
    update runs set pending_dispatch = pending_dispatch + 1, pending_at = clock_timestamp(), next_check_at = null
    where id = ${runId}`.execute(tx);
  return readJob(tx, runId);
}

/** @param hasOpenCalls the run waits for answers: its calls are closed */
async function cancelNow(tx: Tx, sessionId: string, runId: string, hasOpenCalls = false): Promise<CancelOutcome> {
  await tx
    .updateTable('runs')
    .set((eb) => ({
      status: 'cancelled',
      cancel_requested_at: sql`clock_timestamp()`,
      finished_at: sql`clock_timestamp()`,
      pending_kind: null,
      throttled_at: null,
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
  const closed = hasOpenCalls ? await closeOpenCalls(tx, runId, CANCELLED_BEFORE_START) : [];
  const eventSeq = await appendEvents(tx, sessionId, runId, [
    ...closed,
    ...(await closeOpenCompaction(tx, sessionId, error)),
    { type: 'run:cancelled', data: { runId: formatId('run', runId), stillRan: await readStillRan(tx, runId) } },
  ]);
  return { runId, status: 'cancelled', sessionId, eventSeq, notify: false, isNews: true, hasEnded: true, job: null };
}

async function readStillRan(tx: Tx, runId: string): Promise<string[]> {
  const { rows } = await sql<{ names: string[] }>`select baton_still_ran(${runId}) as names`.execute(tx);
  return rows[0]?.names ?? [];
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
