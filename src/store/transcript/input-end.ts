import { sql } from 'kysely';
import type { Db } from '../db/database.ts';

type Of = Readonly<{ tenantId: string; sessionId: string }>;

/** The number of the transcript's message that has this accepted one. Null: it waits, or was removed. */
export async function findTakenUpSeq(
  db: Db,
  { tenantId, sessionId, messageId }: Of & Readonly<{ messageId: string }>,
): Promise<number | null> {
  const row = await db
    .selectFrom('inbox')
    .select('consumed_message_seq')
    .where('tenant_id', '=', tenantId)
    .where('session_id', '=', sessionId)
    .where('id', '=', messageId)
    .executeTakeFirst();
  return row?.consumed_message_seq ?? null;
}

/** The number of the answer of a run's first step after an event. Null: no step has begun since. */
export async function findStepSeqAfter(
  db: Db,
  { tenantId, sessionId, runId, afterSeq }: Of & Readonly<{ runId: string; afterSeq: number }>,
): Promise<number | null> {
  const { rows } = await sql<{ seq: number }>`
    select seq from messages where session_id = ${sessionId} and tenant_id = ${tenantId} and id = (
      select substr(data ->> 'messageId', 5)::uuid from events
      where session_id = ${sessionId} and tenant_id = ${tenantId} and run_id = ${runId} and type = 'step:started'
        and seq > ${afterSeq} order by seq limit 1)`.execute(db);
  return rows[0]?.seq ?? null;
}

/** Whether a session has accepted more than one message. */
export async function hasSeveralMessages(db: Db, { tenantId, sessionId }: Of): Promise<boolean> {
  const second = await db
    .selectFrom('inbox')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('session_id', '=', sessionId)
    .offset(1)
    .limit(1)
    .executeTakeFirst();
  return second !== undefined;
}

/** The number of a message of the session. Null: it has none with this id. */
export async function findMessageSeq(
  db: Db,
  { tenantId, sessionId, messageId }: Of & Readonly<{ messageId: string }>,
): Promise<number | null> {
  const row = await db
    .selectFrom('messages')
    .select('seq')
    .where('id', '=', messageId)
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return row?.seq ?? null;
}
