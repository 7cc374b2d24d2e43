import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { JobPayload } from '../domain/job.ts';
import type { RunLimits } from '../domain/run-limits.ts';
import { type Db, inTransaction, type Tx } from './database.ts';
import { lockSession } from './sessions.ts';
import { startRun } from './start-run.ts';

export type ResumedSession = Readonly<{ runId: string; job: JobPayload; eventSeq: number }>;

/**
 * Goes on where a session stopped: with the messages that a failed or cancelled run left behind, or without any where
 * the last run did not come to its end.
 * @throws BatonError `not_found`, `session_closed`, `session_busy`, `conflict` (nothing to go on with)
 */
export function resumeSession(
  db: Db | Tx,
  request: Readonly<{ tenantId: string; sessionId: string; runId: string; limits: RunLimits }>,
): Promise<ResumedSession> {
  const { tenantId, sessionId, limits } = request;
  return inTransaction(db, async (tx) => {
    const session = await lockSession(tx, tenantId, sessionId);
    const name = `session ${formatId('session', sessionId)}`;
    if (session.status === 'closed') throw new BatonError('session_closed', `${name} is closed`);
    if (session.active_run_id !== null) throw new BatonError('session_busy', `${name} is at work`);
    if (!(await hasWaiting(tx, sessionId)) && !(await wasStopped(tx, sessionId))) {
      throw new BatonError('conflict', `${name} has nothing to go on with: send it a message`);
    }
    const runId = session.next_run_id ?? request.runId;
    return { runId, ...(await startRun(tx, { sessionId, runId, limits })) };
  });
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

/** Whether the session's last piece of work ended before it was done. */
async function wasStopped(tx: Tx, sessionId: string): Promise<boolean> {
  const last = await tx
    .selectFrom('runs')
    .select('status')
    .where('session_id', '=', sessionId)
    .where('kind', '=', 'task')
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return last !== undefined && last.status !== 'completed';
}
