import { sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import type { RunLimits } from '../../domain/run/run-limits.ts';
import { currentTraceparent } from '../../platform/tracing.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import { refuseOverQuota, type TenantQuota } from '../session/quota.ts';
import { type LockedSession, lockSession } from '../session/sessions.ts';
import { startRun } from '../session/start-run.ts';
import { promiseRun } from './inbox.ts';

export type ResumedSession = Readonly<{
  runId: string;
  /** Null: the run starts after the active maintenance run. */
  job: JobPayload | null;
  eventSeq: number;
}>;

/**
 * Continues a stopped session: with its parked messages, or without any if the last task run did not complete. The run
 * gets the limits of the stopped one, counted anew, overridden by the `limits` of the request and taken down by `lowered`.
 * @throws BatonError `not_found`, `session_busy`, `conflict` (nothing to continue), `quota_exceeded`
 */
export function resumeSession(
  db: Db | Tx,
  request: Readonly<{
    tenantId: string;
    sessionId: string;
    runId: string;
    limits: RunLimits;
    lowered?: RunLimits | undefined;
    quota: TenantQuota;
  }>,
): Promise<ResumedSession> {
  const { tenantId, sessionId, limits, lowered = {} } = request;
  return inTransaction(db, async (tx) => {
    const session = await lockSession(tx, tenantId, sessionId);
    const name = `session ${formatId('session', sessionId)}`;
    if (await isAtWork(tx, session)) throw new BatonError('session_busy', `${name} is at work`);
    if (!(await hasWaiting(tx, sessionId)) && !(await wasStopped(tx, sessionId))) {
      throw new BatonError('conflict', `${name} has nothing to go on with: send it a message`);
    }
    await refuseOverQuota(tx, tenantId, request.quota);
    if (session.active_run_id !== null) return resumeLater(tx, session, request.runId, { limits, lowered });
    const runId = session.next_run_id ?? request.runId;
    return { runId, ...(await startRun(tx, { sessionId, runId, limits, lowered, resumes: true })) };
  });
}

/** Promises the run. The end of the maintenance run starts it. */
async function resumeLater(
  tx: Tx,
  session: LockedSession,
  freshId: string,
  { limits, lowered }: Readonly<{ limits: RunLimits; lowered: RunLimits }>,
): Promise<ResumedSession> {
  const runId = await promiseRun(tx, session, freshId);
  await tx
    .updateTable('sessions')
    .set({
      requested_resume: sql<string>`jsonb_build_object(
      'limits', coalesce(requested_resume -> 'limits', '{}') || ${toJson(limits)}::jsonb,
      'lowered', coalesce(requested_resume -> 'lowered', '{}') || ${toJson(lowered)}::jsonb,
      'traceparent', ${currentTraceparent()}::text)`,
    })
    .where('id', '=', session.id)
    .execute();
  return { runId, job: null, eventSeq: session.event_seq };
}

async function isAtWork(tx: Tx, { active_run_id: runId }: LockedSession): Promise<boolean> {
  if (runId === null) return false;
  const run = await tx.selectFrom('runs').select('kind').where('id', '=', runId).executeTakeFirstOrThrow();
  return run.kind === 'task';
}

async function hasWaiting(tx: Tx, sessionId: string): Promise<boolean> {
  const waiting = await tx
    .selectFrom('inbox')
    .select('id')
    .where('session_id', '=', sessionId)
    .where('consumed_message_seq', 'is', null)
    .limit(1)
    .executeTakeFirst();
  return waiting !== undefined;
}

/** Whether the session's last task run ended early, and nothing of it was reverted. */
async function wasStopped(tx: Tx, sessionId: string): Promise<boolean> {
  const last = await findLastTask(tx, sessionId);
  return last !== undefined && last.status !== 'completed' && !last.isReverted;
}

/** The session's active task run, else the one that ended last. */
export function findLastTask(tx: Tx, sessionId: string) {
  return tx
    .selectFrom('runs')
    .select(['id', 'status'])
    .select(
      sql<boolean>`exists (select from messages where run_id = runs.id and reverted_no is not null)`.as('isReverted'),
    )
    .where('session_id', '=', sessionId)
    .where('kind', '=', 'task')
    .orderBy('finished_at', (order) => order.desc().nullsFirst())
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
}
