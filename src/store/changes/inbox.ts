import { sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { type ActiveRun, placeMessage, type RequestedDelivery, storedDelivery } from '../../domain/run/delivery.ts';
import type { InboxLimits, InboxLoad } from '../../domain/run/inbox-limits.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import type { OutputFormat } from '../../domain/run/output-format.ts';
import type { MessageSender, RunStatus } from '../../domain/run/run.ts';
import type { RunLimits } from '../../domain/run/run-limits.ts';
import type { Delivery } from '../../domain/run/session.ts';
import { firstWords } from '../../domain/run/session-name.ts';
import type { UserPart } from '../../domain/transcript/message.ts';
import type { MessageWebhook } from '../../domain/webhooks/message-webhook.ts';
import { currentTraceparent } from '../../platform/tracing.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { toJson, toWrittenJson } from '../db/json.ts';
import { refuseFullInbox } from '../session/inbox-load.ts';
import { refuseOverQuota, refuseOverStorage, type TenantQuota } from '../session/quota.ts';
import { type LockedSession, lockSession } from '../session/sessions.ts';
import { startRun } from '../session/start-run.ts';
import { appendEvents } from '../transcript/events.ts';
import { keepUserFiles } from '../transcript/media.ts';
import { type CancelOutcome, cancelLocked } from './cancels.ts';

export type NewInboxMessage = Readonly<{
  tenantId: string;
  sessionId: string;
  messageId: string;
  /** Files by data URL, http(s) URL or `@blob:` reference. They are stored as blobs. */
  content: readonly UserPart[];
  /** `system`: a notice of the service, not words of the user. Default `user`. */
  origin?: 'system';
  /** The schedule, hook or child that sent the message. Undefined: a caller sent it. */
  sentBy?: MessageSender | undefined;
  /** Used if a run is active. Default `steer`. */
  delivery?: RequestedDelivery;
  /** The id for a run that this message starts. */
  runId: string;
  /** Limits of that run. The newest queued message that names any counts. */
  limits?: RunLimits;
  /** Takes down the limits of that run, never up. The lowest of all queued messages counts. */
  lowered?: RunLimits;
  /** Hears of the end of that run, and of each time that it waits. */
  webhook?: MessageWebhook | undefined;
  /** The result that run is asked for. The newest queued message that asks for one counts. */
  output?: OutputFormat | undefined;
  quota: TenantQuota;
  inboxLimits: InboxLimits;
}>;

export type AcceptedMessage = Readonly<{
  messageId: string;
  /** The run that takes up the message. It may be a promised run, which has its id before it begins. */
  runId: string;
  /** True: the message waits for the active run, which may be a maintenance run. */
  queued: boolean;
  /** Place among the queued messages, from 1. 0: the message does not wait. */
  position: number;
  status: RunStatus;
  eventSeq: number;
  /** To enqueue. Null: no run was started. */
  job: JobPayload | null;
  /** The message was sent again and is parked: no run will take it up by itself. */
  isParked?: true;
  /** The cancel of the active run, with delivery `interrupt`. */
  cancelled: CancelOutcome | null;
}>;

/**
 * Stores a user message in the inbox, and starts or promises the run that takes it up. Sent again with the same id, it
 * changes nothing and gets its current state.
 * @throws BatonError `not_found`, `session_busy` (delivery `reject`), `inbox_full`, `conflict` (the id is taken),
 * `quota_exceeded`, `storage_exceeded`, `invalid_request` (an invalid file)
 */
export function acceptMessage(db: Db | Tx, message: NewInboxMessage): Promise<AcceptedMessage> {
  return inTransaction(db, (tx) => accept(tx, message));
}

async function accept(tx: Tx, message: NewInboxMessage): Promise<AcceptedMessage> {
  return acceptLocked(tx, await lockSession(tx, message.tenantId, message.sessionId), message);
}

/** Like `acceptMessage`, for a caller that holds the session's lock. */
export async function acceptLocked(tx: Tx, session: LockedSession, message: NewInboxMessage): Promise<AcceptedMessage> {
  const { known, waiting } = await readInbox(tx, message);
  if (known !== null) return replayAccepted(tx, message, session, known);
  await refuseOverQuota(tx, message.tenantId, message.quota);
  await refuseOverStorage(tx, message.tenantId, message.quota);
  await refuseDuplicateId(tx, message);
  const active = session.active_run_id === null ? null : await stateOf(tx, session.active_run_id);
  const requested = message.delivery ?? 'steer';
  const place = placeMessage(requested, active);
  if (place === 'refuse') {
    throw new BatonError('session_busy', `session ${formatId('session', session.id)} is at work`);
  }
  refuseFullInbox(message, waiting);
  const content = await keepUserFiles(tx, message, message.content);
  const position = waiting.messages + 1;
  const stored = { ...message, content, position, delivery: storedDelivery(requested) };
  if (active === null || place === 'start') return startWith(tx, session, stored);
  if (place === 'join') return enqueue(tx, session, { message: stored, runId: active.id, active });
  // The cancel comes first: it parks only messages that were stored before it.
  const cancelled =
    place === 'interrupt'
      ? await cancelLocked(tx, session.id, { eventSeqBefore: session.event_seq, runId: active.id })
      : null;
  const current = { ...session, event_seq: cancelled?.eventSeq ?? session.event_seq };
  if (cancelled?.status === 'cancelled') return { ...(await startWith(tx, current, stored)), cancelled };
  const accepted = await enqueue(tx, current, { message: stored, runId: null, active });
  return { ...accepted, cancelled };
}

/**
 * The present state of an accepted message; null if it was removed since.
 * @throws BatonError `not_found`; `conflict` (it belongs to another session)
 */
export async function findAccepted(
  tx: Tx,
  message: Pick<NewInboxMessage, 'tenantId' | 'sessionId' | 'messageId'>,
): Promise<AcceptedMessage | null> {
  const session = await lockSession(tx, message.tenantId, message.sessionId);
  const { known } = await readInbox(tx, message);
  return known === null ? null : replayAccepted(tx, message, session, known);
}

/** `position`: its place among the queued messages, from 1. */
type StoredMessage = NewInboxMessage & Readonly<{ delivery: Delivery; position: number }>;
type WaitedForRun = ActiveRun & Readonly<{ id: string }>;

async function startWith(tx: Tx, session: LockedSession, message: StoredMessage): Promise<AcceptedMessage> {
  const runId = session.next_run_id ?? message.runId;
  await insertInboxRow(tx, message, session.inbox_seq + 1, null);
  const { job, eventSeq } = await startRun(tx, { sessionId: session.id, runId });
  const { messageId } = message;
  return { messageId, runId, queued: false, position: 0, status: 'queued', eventSeq, job, cancelled: null };
}

/** @param runId the active run, or null for the promised one */
async function enqueue(
  tx: Tx,
  session: LockedSession,
  { message, runId, active }: Readonly<{ message: StoredMessage; runId: string | null; active: WaitedForRun }>,
): Promise<AcceptedMessage> {
  const { messageId, position } = message;
  await insertInboxRow(tx, message, session.inbox_seq + 1, runId);
  const promised = runId ?? (await promiseRun(tx, session, message.runId));
  const status = runId === null ? 'queued' : active.status;
  const eventSeq = await appendEvents(tx, session.id, active.id, [
    { type: 'message:queued', data: { position, id: formatId('message', messageId) } },
  ]);
  return { messageId, runId: promised, queued: true, position, status, eventSeq, job: null, cancelled: null };
}

/** Reserves an id for the run after the active one, so that clients can wait for it before it begins. */
export async function promiseRun(tx: Tx, session: LockedSession, freshId: string): Promise<string> {
  if (session.next_run_id !== null) return session.next_run_id;
  await tx.updateTable('sessions').set({ next_run_id: freshId }).where('id', '=', session.id).execute();
  return freshId;
}

/** An inbox item keeps its id in the session's transcript, where an assistant's message may already have it. */
async function refuseDuplicateId(tx: Tx, { sessionId, messageId }: NewInboxMessage): Promise<void> {
  const taken = tx.selectFrom('messages').select('id').where('id', '=', messageId).where('session_id', '=', sessionId);
  if ((await taken.executeTakeFirst()) !== undefined) {
    throw new BatonError('conflict', `message ${formatId('message', messageId)} exists already`);
  }
}

async function insertInboxRow(tx: Tx, message: StoredMessage, seq: number, runId: string | null): Promise<void> {
  await tx
    .insertInto('inbox')
    .values({
      session_id: message.sessionId,
      seq,
      tenant_id: message.tenantId,
      id: message.messageId,
      delivery: message.delivery,
      origin: message.origin ?? 'user',
      sent_by: message.sentBy ?? null,
      content: toJson(message.content),
      limits: toJson(message.limits ?? {}),
      lowered: toJson(message.lowered ?? {}),
      webhook: message.webhook === undefined ? null : toJson(message.webhook),
      output: message.output === undefined ? null : toWrittenJson(message.output),
      run_id: runId,
      traceparent: currentTraceparent(),
    })
    .execute();
  const words = message.origin === 'system' ? null : firstWords(message.content);
  // A new message ends the conversation that the hashes describe.
  await tx
    .updateTable('sessions')
    .set({
      inbox_seq: seq,
      conversation_asked: null,
      conversation_head: null,
      first_words: sql`coalesce(first_words, ${words})`,
    })
    .where('id', '=', message.sessionId)
    .execute();
}

type InboxItem = Readonly<{
  session_id: string;
  seq: number;
  run_id: string | null;
  consumed_message_seq: number | null;
}>;

type Inbox = Readonly<{ known: InboxItem | null; waiting: InboxLoad }>;

/** The tenant's item with this id, if it exists, maybe in another session, and the load of the session's inbox. */
async function readInbox(
  tx: Tx,
  { tenantId, sessionId, messageId }: Pick<NewInboxMessage, 'tenantId' | 'sessionId' | 'messageId'>,
): Promise<Inbox> {
  const { rows } = await sql<Inbox>`
    select (select row_to_json(item) from (
        select session_id, seq, run_id, consumed_message_seq from inbox
        where tenant_id = ${tenantId} and id = ${messageId}) as item) as known,
      (select json_build_object('messages', count(*), 'bytes', coalesce(sum(content_bytes), 0)) from inbox
        where session_id = ${sessionId} and consumed_message_seq is null) as waiting`.execute(tx);
  return rows[0] ?? { known: null, waiting: { messages: 0, bytes: 0 } };
}

async function replayAccepted(
  tx: Tx,
  { messageId, sessionId }: Pick<NewInboxMessage, 'messageId' | 'sessionId'>,
  session: LockedSession,
  known: InboxItem,
): Promise<AcceptedMessage> {
  const runId = known.run_id ?? session.next_run_id;
  if (known.session_id !== sessionId || runId === null) {
    throw new BatonError('conflict', `message ${formatId('message', messageId)} exists already`);
  }
  const isLeft = await isParked(tx, session, known);
  const isWaiting = known.consumed_message_seq === null && !isLeft && (await waitsBehindRun(tx, session, known));
  const position = isWaiting ? await countWaiting(tx, sessionId, known.seq) : 0;
  const status = known.run_id === null ? 'queued' : (await stateOf(tx, known.run_id)).status;
  const parked = isLeft ? ({ isParked: true } as const) : {};
  const eventSeq = session.event_seq;
  return { messageId, runId, queued: isWaiting, position, status, eventSeq, job: null, ...parked, cancelled: null };
}

/** A message queued before a maintenance run began stays parked at its end, unless the session was resumed. */
async function isParked(tx: Tx, session: LockedSession, { seq, consumed_message_seq }: InboxItem): Promise<boolean> {
  if (consumed_message_seq !== null || session.requested_resume !== null) return false;
  if (session.active_run_id === null) return true;
  const { kind, start_inbox_seq: startSeq } = await tx
    .selectFrom('runs')
    .select(['kind', 'start_inbox_seq'])
    .where('id', '=', session.active_run_id)
    .executeTakeFirstOrThrow();
  return kind === 'maintenance' && seq <= startSeq;
}

/** The first message of a run started it, and therefore does not wait behind it. */
async function waitsBehindRun(tx: Tx, session: LockedSession, { seq, run_id: runId }: InboxItem): Promise<boolean> {
  if (runId !== null) return !(await startedRun(tx, session.id, seq, runId));
  return session.active_run_id !== null;
}

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

async function stateOf(tx: Tx, runId: string): Promise<WaitedForRun> {
  const { final_answer_for: limit, ...run } = await tx
    .selectFrom('runs')
    .select(['id', 'kind', 'status', 'final_answer_for'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow();
  return { ...run, givesFinalAnswer: limit !== null };
}
