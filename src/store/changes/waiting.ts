import { type RawBuilder, sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { InboxLimits, InboxLoad } from '../../domain/run/inbox-limits.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import type { Delivery } from '../../domain/run/session.ts';
import type { UserPart } from '../../domain/transcript/message.ts';
import { MAX_INLINE_CONTENT_BYTES, MAX_PAGE_CONTENT_BYTES } from '../../domain/tunables.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import { refuseFullInbox } from '../session/inbox-load.ts';
import { type LockedSession, lockSession } from '../session/sessions.ts';
import { followRunEnd } from '../session/start-run.ts';
import { appendEvents } from '../transcript/events.ts';
import { keepUserFiles } from '../transcript/media.ts';
import { type CancelOutcome, cancelLocked } from './cancels.ts';
import { type DroppedMessage, dropWaiting, forgetPromise } from './drop-waiting.ts';
import { promiseRun } from './inbox.ts';

/** Default size of a page of queued messages. */
const MAX_WAITING_PAGE = 200;

export type WaitingMessage = Readonly<{
  id: string;
  seq: number;
  /** Among the queued messages, from 1. */
  position: number;
  delivery: Delivery;
  content: unknown[];
  contentBytes: number;
  enqueuedAt: Date;
}>;

/** A queued message. `content` is null if it is too large for a snapshot. */
export type WaitingNotice = Omit<WaitingMessage, 'content'> & Readonly<{ content: unknown[] | null }>;

/**
 * A page of queued messages, also parked ones. At most `limit`; fewer if they are large, but at least one if any is
 * left.
 */
export async function listWaiting(
  db: Db,
  tenantId: string,
  sessionId: string,
  { afterSeq = 0, limit = MAX_WAITING_PAGE }: Readonly<{ afterSeq?: number; limit?: number }> = {},
): Promise<WaitingMessage[]> {
  const { rows } = await sql<WaitingMessage>`
    select id, seq, no + (select count(*) from inbox where ${isWaiting(tenantId, sessionId)} and seq <= ${afterSeq}) as position,
      delivery, content, content_bytes as "contentBytes", enqueued_at as "enqueuedAt"
    from (
      select *, row_number() over by_seq as no, sum(content_bytes) over by_seq as bytes
      from inbox where ${isWaiting(tenantId, sessionId)} and seq > ${afterSeq}
      window by_seq as (order by seq rows unbounded preceding) limit ${limit}
    ) as page
    where no = 1 or bytes <= ${MAX_PAGE_CONTENT_BYTES} order by seq`.execute(db);
  return rows;
}

/** The first queued messages, without large contents: for snapshots. */
export async function listWaitingNotices(
  db: Db,
  tenantId: string,
  sessionId: string,
  limit: number,
): Promise<WaitingNotice[]> {
  const { rows } = await sql<WaitingNotice>`
    select id, seq, row_number() over (order by seq) as position, delivery,
      case when content_bytes <= ${MAX_INLINE_CONTENT_BYTES} then content end as content,
      content_bytes as "contentBytes", enqueued_at as "enqueuedAt"
    from inbox where ${isWaiting(tenantId, sessionId)} order by seq limit ${limit}`.execute(db);
  return rows;
}

export async function countWaiting(db: Db, tenantId: string, sessionId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) from inbox where ${isWaiting(tenantId, sessionId)}`.execute(db);
  return rows[0]?.count ?? 0;
}

/** Place among the queued messages, from 1. Null: the message waits no longer. */
export async function readPosition(
  db: Db,
  tenantId: string,
  sessionId: string,
  messageId: string,
): Promise<number | null> {
  const { rows } = await sql<{ position: number }>`
    select (select count(*) from inbox where ${isWaiting(tenantId, sessionId)} and seq <= item.seq) as position
    from inbox item
    where id = ${messageId} and session_id = ${sessionId} and tenant_id = ${tenantId} and consumed_message_seq is null`.execute(
    db,
  );
  return rows[0]?.position ?? null;
}

/** @throws BatonError `not_found`; `conflict` if the message is in the transcript already */
export async function readWaiting(
  db: Db | Tx,
  { tenantId, sessionId, messageId }: WaitingRef,
): Promise<WaitingMessage> {
  const { seq } = await waitingItem(db, { tenantId, sessionId, messageId });
  const [message] = await listWaiting(db, tenantId, sessionId, { afterSeq: seq - 1, limit: 1 });
  if (message?.id === messageId) return message;
  throw new BatonError('conflict', `message ${formatId('message', messageId)} was taken up already`);
}

const isWaiting = (tenantId: string, sessionId: string): RawBuilder<boolean> =>
  sql<boolean>`session_id = ${sessionId} and tenant_id = ${tenantId} and consumed_message_seq is null`;

type WaitingRef = Readonly<{ tenantId: string; sessionId: string; messageId: string }>;

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
    inboxLimits?: InboxLimits | undefined;
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
    const data = { id: formatId('message', ref.messageId), delivery };
    const eventSeq = await appendEvents(tx, session.id, session.active_run_id, [{ type: 'message:changed', data }]);
    return { message: await readWaiting(tx, ref), eventSeq };
  });
}

async function keepChanged(
  tx: Tx,
  ref: WaitingRef,
  content: readonly UserPart[],
  inboxLimits: InboxLimits | undefined,
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
    const cancelled = await cancelLocked(tx, session.id, eventSeq, runId, false);
    const started = cancelled.hasEnded ? await followRunEnd(tx, runId) : null;
    return { ids, eventSeq: cancelled.eventSeq, job: null, ...started, cancelled };
  });
}

async function waitingItem(tx: Db | Tx, { tenantId, sessionId, messageId }: WaitingRef) {
  const item = await tx
    .selectFrom('inbox')
    .select(['seq', 'delivery', 'run_id', 'consumed_message_seq'])
    .where('id', '=', messageId)
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  const name = `message ${formatId('message', messageId)}`;
  if (item === undefined) throw new BatonError('not_found', `${name} does not wait in this session`);
  if (item.consumed_message_seq !== null) throw new BatonError('conflict', `${name} was taken up already`);
  return item;
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
