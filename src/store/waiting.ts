import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { JobPayload } from '../domain/job.ts';
import type { UserPart } from '../domain/message.ts';
import type { Delivery } from '../domain/session.ts';
import { type CancelOutcome, cancelLocked } from './cancels.ts';
import { forgetTurn } from './conversations.ts';
import { type Db, inTransaction, type Tx } from './database.ts';
import { type DroppedMessage, dropWaiting, forgetPromise } from './drop-waiting.ts';
import { appendEvents } from './events.ts';
import { promiseRun } from './inbox.ts';
import { toJson } from './json.ts';
import { keepUserFiles } from './media.ts';
import { type LockedSession, lockSession } from './sessions.ts';
import { startRequested, startRun } from './start-run.ts';

export type WaitingMessage = Readonly<{
  id: string;
  seq: number;
  delivery: Delivery;
  content: unknown[];
  enqueuedAt: Date;
}>;

/** What waits in a session's inbox, in order: also what a cancelled or failed run left behind. */
export async function listWaiting(db: Db, tenantId: string, sessionId: string): Promise<WaitingMessage[]> {
  return db
    .selectFrom('inbox')
    .select(['id', 'seq', 'delivery', 'content', 'enqueued_at as enqueuedAt'])
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .where('consumed_message_seq', 'is', null)
    .orderBy('seq')
    .execute();
}

type WaitingRef = Readonly<{ tenantId: string; sessionId: string; messageId: string }>;

/**
 * Changes a message that waits: what it says, or whether it joins the active run or waits for its end. What was asked
 * with one that says something else now is not known any more. Returns the session's last event.
 * @param freshRunId for the run after the active one, should the message now wait for it
 * @throws BatonError `not_found`; `conflict` when it was taken up already; `invalid_request` for a file that is none
 */
export async function changeWaiting(
  db: Db,
  ref: WaitingRef,
  change: Readonly<{ content?: readonly UserPart[] | undefined; delivery?: 'steer' | 'followup' | undefined }>,
  freshRunId: string,
): Promise<number> {
  return db.transaction().execute(async (tx) => {
    const session = await lockSession(tx, ref.tenantId, ref.sessionId);
    const item = await waitingItem(tx, ref);
    const delivery = change.delivery ?? item.delivery;
    const content = change.content === undefined ? undefined : await keepUserFiles(tx, ref, change.content);
    const runId = delivery === item.delivery ? item.run_id : await runFor(tx, session, delivery, item.run_id);
    if (runId === null && session.active_run_id !== null) await promiseRun(tx, session, freshRunId);
    await tx
      .updateTable('inbox')
      .set({
        delivery,
        ...(content !== undefined && { content: toJson(content) }),
        run_id: runId,
      })
      .where('id', '=', ref.messageId)
      .execute();
    await forgetPromise(tx, session.id);
    if (content !== undefined) await forgetTurn(tx, session.id, [item.seq]);
    const data = { id: formatId('message', ref.messageId), delivery };
    return appendEvents(tx, session.id, session.active_run_id, [{ type: 'message:changed', data }]);
  });
}

/** The run that a message now waits for: null for the one after the active one. */
async function runFor(
  tx: Tx,
  session: LockedSession,
  delivery: Delivery,
  before: string | null,
): Promise<string | null> {
  const runId = session.active_run_id;
  if (runId === null) return before;
  const run = await tx
    .selectFrom('runs')
    .select(['kind', 'status', 'final_answer_for'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow();
  if (run.kind === 'maintenance' || run.status === 'cancelling' || run.final_answer_for !== null) return before;
  if (delivery === 'steer') return runId;
  // A run that has nothing else to begin with keeps what it has.
  return before === runId && !(await hasBegun(tx, runId)) && (await countFor(tx, runId)) < 2 ? runId : null;
}

/** What was removed. A run that had not begun and has nothing to begin with any more is cancelled. */
export type Removal = Readonly<{
  ids: readonly string[];
  eventSeq: number;
  /** Of the run that follows a cancelled one at once. */
  job: JobPayload | null;
  /** The run that began with nothing but what was removed. */
  cancelled: CancelOutcome | null;
}>;

/**
 * Removes what waits: one message, or all.
 * @throws BatonError `not_found`; `conflict` when the message was taken up already
 */
export async function removeWaiting(
  db: Db | Tx,
  ref: Omit<WaitingRef, 'messageId'> & Readonly<{ messageId: string | null }>,
): Promise<Removal> {
  return inTransaction(db, async (tx) => {
    const { messageId } = ref;
    const session = await lockSession(tx, ref.tenantId, ref.sessionId);
    if (messageId !== null) await waitingItem(tx, { ...ref, messageId });
    const removal = await dropWaiting(tx, session, messageId);
    if (removal === null) return { ids: [], eventSeq: session.event_seq, job: null, cancelled: null };
    const { dropped, eventSeq } = removal;
    const ids = dropped.map(({ id }) => id);
    const runId = session.active_run_id;
    if (runId === null || (await hasBegun(tx, runId)) || !(await wasStartedBy(tx, runId, dropped))) {
      return { ids, eventSeq, job: null, cancelled: null };
    }
    // Nobody wants the work to stop that waits behind this run.
    const cancelled = await cancelLocked(tx, session.id, eventSeq, runId, false);
    const { next_run_id: next } = await lockSession(tx, ref.tenantId, ref.sessionId);
    if (cancelled.status !== 'cancelled') return { ids, eventSeq: cancelled.eventSeq, job: null, cancelled };
    // What waited for the end of that run waits no longer.
    const started =
      next === null ? await startRequested(tx, session.id) : await startRun(tx, { sessionId: session.id, runId: next });
    return { ids, eventSeq: cancelled.eventSeq, job: null, ...started, cancelled };
  });
}

async function waitingItem(tx: Tx, { sessionId, messageId }: WaitingRef) {
  const item = await tx
    .selectFrom('inbox')
    .select(['seq', 'delivery', 'run_id', 'consumed_message_seq'])
    .where('id', '=', messageId)
    .where('session_id', '=', sessionId)
    .executeTakeFirst();
  const name = `message ${formatId('message', messageId)}`;
  if (item === undefined) throw new BatonError('not_found', `${name} does not wait in this session`);
  if (item.consumed_message_seq !== null) throw new BatonError('conflict', `${name} was taken up already`);
  return item;
}

/** Whether a run is there and has a message in the transcript. */
async function hasBegun(tx: Tx, runId: string | null): Promise<boolean> {
  if (runId === null) return false;
  const message = await tx.selectFrom('messages').select('id').where('run_id', '=', runId).limit(1).executeTakeFirst();
  return message !== undefined;
}

/** Whether one of the dropped messages started the run, and none that waits is there for it. A clean-up needs none. */
async function wasStartedBy(tx: Tx, runId: string, dropped: readonly DroppedMessage[]): Promise<boolean> {
  const run = await tx
    .selectFrom('runs')
    .select(['kind', 'start_inbox_seq'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow();
  if (run.kind === 'maintenance' || !dropped.some(({ seq }) => seq <= run.start_inbox_seq)) return false;
  return (await countFor(tx, runId)) === 0;
}

/** How many messages wait for the run. */
async function countFor(tx: Tx, runId: string): Promise<number> {
  const { count } = await tx
    .selectFrom('inbox')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('run_id', '=', runId)
    .where('consumed_message_seq', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}
