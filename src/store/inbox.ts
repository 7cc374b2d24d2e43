import { sql } from 'kysely';
import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { JobPayload } from '../domain/job.ts';
import type { UserPart } from '../domain/message.ts';
import type { RunStatus } from '../domain/run.ts';
import type { Db, Tx } from './database.ts';
import { appendEvents } from './events.ts';
import { toJson } from './json.ts';
import { lockSession } from './sessions.ts';

export type NewInboxMessage = Readonly<{
  tenantId: string;
  sessionId: string;
  messageId: string;
  content: readonly UserPart[];
  /** The id for the run, should this message start one. */
  runId: string;
  maxSteps: number | null;
}>;

export type AcceptedMessage = Readonly<{
  messageId: string;
  runId: string;
  /** True when a run was active already: the message waits for its next step boundary. */
  queued: boolean;
  /** Its place among the waiting messages, from 1; 0 when it does not wait behind a run. */
  position: number;
  status: RunStatus;
  /** The session's last event after this. */
  eventSeq: number;
  /** The job to enqueue, when a run was started. */
  job: JobPayload | null;
}>;

/**
 * Accepts a user message: it is in the inbox when this returns, and a run is there that will take it up. Sent again with
 * the same id it changes nothing and gives the answer of now.
 * @throws BatonError `not_found`, `session_closed`, `conflict` (the id belongs to another session)
 */
export async function acceptMessage(db: Db, message: NewInboxMessage): Promise<AcceptedMessage> {
  return db.transaction().execute(async (tx) => {
    const session = await lockSession(tx, message.tenantId, message.sessionId);
    const known = await tx
      .selectFrom('inbox')
      .select(['session_id', 'seq', 'run_id', 'consumed_message_seq'])
      .where('id', '=', message.messageId)
      .executeTakeFirst();
    if (known !== undefined) return replayAccepted(tx, message, session.event_seq, known);
    await refuseTakenId(tx, message.messageId);
    if (session.status === 'closed') {
      throw new BatonError('session_closed', `session ${formatId('session', session.id)} takes no more messages`);
    }
    const runId = session.active_run_id ?? message.runId;
    if (session.active_run_id === null) {
      await sql`select baton_start_run(${session.id}, ${runId}, 'task', ${message.maxSteps}, null)`.execute(tx);
    }
    await insertInboxRow(tx, message, session.inbox_seq + 1, runId);
    if (session.active_run_id === null) {
      const job: JobPayload = { runId, kind: 'step', no: 1, dispatch: 1 };
      const eventSeq = session.event_seq + 1;
      return { messageId: message.messageId, runId, queued: false, position: 0, status: 'queued', eventSeq, job };
    }
    const taken = await takeOverMaintenance(tx, runId, message.maxSteps);
    if (taken !== null) {
      const eventSeq = session.event_seq;
      return { messageId: message.messageId, runId, queued: false, position: 0, status: taken, eventSeq, job: null };
    }
    const position = await countWaiting(tx, session.id, session.inbox_seq + 1);
    const eventSeq = await appendEvents(tx, session.id, runId, [
      { type: 'message:queued', data: { position, id: formatId('message', message.messageId) } },
    ]);
    const status = await statusOf(tx, runId);
    return { messageId: message.messageId, runId, queued: true, position, status, eventSeq, job: null };
  });
}

/**
 * A compaction or prune of an idle session is no work that a message waits behind: its run becomes the message's own and
 * takes it up afterwards. Null: the run is a task already.
 */
async function takeOverMaintenance(tx: Tx, runId: string, maxSteps: number | null): Promise<RunStatus | null> {
  const run = await tx
    .updateTable('runs')
    .set({ kind: 'task', ...(maxSteps !== null && { max_steps: maxSteps }) })
    .where('id', '=', runId)
    .where('kind', '=', 'maintenance')
    .returning('status')
    .executeTakeFirst();
  return run?.status ?? null;
}

/** An inbox item keeps its id in the transcript: one that an assistant's message has already would never fit in. */
async function refuseTakenId(tx: Tx, messageId: string): Promise<void> {
  const taken = await tx.selectFrom('messages').select('id').where('id', '=', messageId).executeTakeFirst();
  if (taken !== undefined) {
    throw new BatonError('conflict', `message ${formatId('message', messageId)} exists already`);
  }
}

async function insertInboxRow(tx: Tx, message: NewInboxMessage, seq: number, runId: string): Promise<void> {
  await tx
    .insertInto('inbox')
    .values({
      session_id: message.sessionId,
      seq,
      tenant_id: message.tenantId,
      id: message.messageId,
      delivery: 'steer',
      content: toJson(message.content),
      run_id: runId,
    })
    .execute();
  await tx.updateTable('sessions').set({ inbox_seq: seq }).where('id', '=', message.sessionId).execute();
}

async function replayAccepted(
  tx: Tx,
  message: NewInboxMessage,
  eventSeq: number,
  known: Readonly<{ session_id: string; seq: number; run_id: string | null; consumed_message_seq: number | null }>,
): Promise<AcceptedMessage> {
  if (known.session_id !== message.sessionId || known.run_id === null) {
    throw new BatonError('conflict', `message ${formatId('message', message.messageId)} exists already`);
  }
  const waits =
    known.consumed_message_seq === null && !(await startedRun(tx, message.sessionId, known.seq, known.run_id));
  const position = waits ? await countWaiting(tx, message.sessionId, known.seq) : 0;
  const status = await statusOf(tx, known.run_id);
  return { messageId: message.messageId, runId: known.run_id, queued: waits, position, status, eventSeq, job: null };
}

/** The first message of a run does not wait behind it. */
async function startedRun(tx: Tx, sessionId: string, seq: number, runId: string): Promise<boolean> {
  const earlier = await tx
    .selectFrom('inbox')
    .select('seq')
    .where('session_id', '=', sessionId)
    .where('run_id', '=', runId)
    .where('seq', '<', seq)
    .executeTakeFirst();
  return earlier === undefined;
}

async function countWaiting(tx: Tx, sessionId: string, uptoSeq: number): Promise<number> {
  const { count } = await tx
    .selectFrom('inbox')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('session_id', '=', sessionId)
    .where('consumed_message_seq', 'is', null)
    .where('seq', '<=', uptoSeq)
    .executeTakeFirstOrThrow();
  return count;
}

async function statusOf(tx: Tx, runId: string): Promise<RunStatus> {
  const { status } = await tx.selectFrom('runs').select('status').where('id', '=', runId).executeTakeFirstOrThrow();
  return status;
}

export type WaitingMessage = Readonly<{
  id: string;
  seq: number;
  delivery: string;
  content: unknown[];
  enqueuedAt: Date;
}>;

/** What waits in a session's inbox, in order. */
export async function listWaiting(db: Db, sessionId: string): Promise<WaitingMessage[]> {
  return db
    .selectFrom('inbox')
    .select(['id', 'seq', 'delivery', 'content', 'enqueued_at as enqueuedAt'])
    .where('session_id', '=', sessionId)
    .where('consumed_message_seq', 'is', null)
    .orderBy('seq')
    .execute();
}
