import { sql } from 'kysely';
import { formatId } from '../../domain/ids.ts';
import type { InboxLimits, InboxLoad } from '../../domain/run/inbox-limits.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import type { Delivery } from '../../domain/run/session.ts';
import type { UserPart } from '../../domain/transcript/message.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import { refuseFullInbox } from '../session/inbox-load.ts';
import { type LockedSession, lockSession } from '../session/sessions.ts';
import { followRunEnd } from '../session/start-run.ts';
import {
  isWaiting,
  readWaiting,
  type WaitingMessage,
  type WaitingRef,
  waitingItem,
} from '../session/waiting-messages.ts';
import { appendEvents } from '../transcript/events.ts';
import { keepUserFiles } from '../transcript/media.ts';
import { type CancelOutcome, cancelLocked } from './cancels.ts';
import { type DroppedMessage, dropWaiting, forgetPromise } from './drop-waiting.ts';
import { renewFirstWords } from './first-words.ts';
import { promiseRun } from './inbox.ts';

/** The message after the change. `eventSeq`: the session's last event. */
export type ChangedWaiting = Readonly<{ message: WaitingMessage; eventSeq: number }>;

/**
 * Edits a queued message: content or delivery. New content also clears the turn, whose hash no longer matches.
 * @param freshRunId for the promised run, if the message now waits for it
 * @throws BatonError `not_found`; `conflict` if the message is in the transcript already; `inbox_full`;
 * `invalid_request` (an invalid file)
 */
export async function changeWaiting(
  db: Db | Tx,
  ref: WaitingRef,
  change: Readonly<{
    content?: readonly UserPart[] | undefined;
    delivery?: 'steer' | 'followup' | undefined;
    inboxLimits: InboxLimits;
  }>,
  freshRunId: string,
): Promise<ChangedWaiting> {
  return inTransaction(db, async (tx) => {
    const session = await lockSession(tx, ref.tenantId, ref.sessionId);
    const item = await waitingItem(tx, ref);
    const delivery = change.delivery ?? item.delivery;
    const content =
      change.content === undefined ? undefined : await keepChanged(tx, ref, change.content, change.inboxLimits);
    const runId = delivery === item.delivery ? item.run_id : await runFor(tx, session, delivery, item.run_id);
    if (runId === null && session.active_run_id !== null) await promiseRun(tx, session, freshRunId);
    await tx
      .updateTable('inbox')
      .set({
        delivery,
        ...(content !== undefined && { content: toJson(content) }),
        run_id: runId,
      })
      .where('tenant_id', '=', ref.tenantId)
      .where('id', '=', ref.messageId)
      .execute();
    await forgetPromise(tx, session.id);
    if (content !== undefined) await renewFirstWords(tx, session);
    const data = { id: formatId('message', ref.messageId), delivery };
    const eventSeq = await appendEvents(tx, session.id, session.active_run_id, [{ type: 'message:changed', data }]);
    return { message: await readWaiting(tx, ref), eventSeq };
  });
}

async function keepChanged(
  tx: Tx,
  ref: WaitingRef,
  content: readonly UserPart[],
  inboxLimits: InboxLimits,
): Promise<UserPart[]> {
  const { rows } = await sql<InboxLoad>`
    select count(*) as messages, coalesce(sum(content_bytes), 0)::bigint as bytes from inbox
    where ${isWaiting(ref.tenantId, ref.sessionId)} and id <> ${ref.messageId}`.execute(tx);
  refuseFullInbox({ ...ref, content, inboxLimits }, rows[0] ?? { messages: 0, bytes: 0 });
  return keepUserFiles(tx, ref, content);
}

/** The run that a message now waits for. Null: the promised one. */
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
  // A run that has not begun keeps its only message.
  return before === runId && !(await hasBegun(tx, runId)) && (await countFor(tx, runId)) < 2 ? runId : null;
}

export type Removal = Readonly<{
  ids: readonly string[];
  eventSeq: number;
  /** Job of the run that follows the cancelled one at once. */
  job: JobPayload | null;
  /** The run that had no other message to begin with, and is therefore cancelled. */
  cancelled: CancelOutcome | null;
}>;

/** Removes one or all queued messages. @throws BatonError `not_found`; `conflict` if it is in the transcript already */
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
    // Not parked: the caller removes only the messages of this run, not those of the follow-up run.
    const cancelled = await cancelLocked(tx, session.id, { eventSeqBefore: eventSeq, runId, parks: false });
    const started = cancelled.hasEnded ? await followRunEnd(tx, runId) : null;
    return { ids, eventSeq: cancelled.eventSeq, job: null, ...started, cancelled };
  });
}

/** Whether a run has a message in the transcript. */
async function hasBegun(tx: Tx, runId: string | null): Promise<boolean> {
  if (runId === null) return false;
  const message = await tx.selectFrom('messages').select('id').where('run_id', '=', runId).limit(1).executeTakeFirst();
  return message !== undefined;
}

/** Whether the run has lost its only messages by this removal. A maintenance run needs none. */
async function wasStartedBy(tx: Tx, runId: string, dropped: readonly DroppedMessage[]): Promise<boolean> {
  const run = await tx
    .selectFrom('runs')
    .select(['kind', 'start_inbox_seq'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow();
  if (run.kind === 'maintenance' || !dropped.some(({ seq }) => seq <= run.start_inbox_seq)) return false;
  return (await countFor(tx, runId)) === 0;
}

async function countFor(tx: Tx, runId: string): Promise<number> {
  const { count } = await tx
    .selectFrom('inbox')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('run_id', '=', runId)
    .where('consumed_message_seq', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}
