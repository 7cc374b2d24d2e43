import { type RawBuilder, sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { Delivery } from '../../domain/run/session.ts';
import { MAX_INLINE_CONTENT_BYTES, MAX_PAGE_CONTENT_BYTES } from '../../domain/tunables.ts';
import type { Db, Tx } from '../db/database.ts';

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

export const isWaiting = (tenantId: string, sessionId: string): RawBuilder<boolean> =>
  sql<boolean>`session_id = ${sessionId} and tenant_id = ${tenantId} and consumed_message_seq is null`;

export type WaitingRef = Readonly<{ tenantId: string; sessionId: string; messageId: string }>;

/** The row of a queued message. @throws BatonError `not_found`; `conflict` if it is in the transcript already */
export async function waitingItem(tx: Db | Tx, { tenantId, sessionId, messageId }: WaitingRef) {
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
