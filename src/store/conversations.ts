import { sql } from 'kysely';
import type { NewMessage } from '../domain/from-model-messages.ts';
import { newId } from '../runtime/new-id.ts';
import type { Db, Tx } from './database.ts';
import { toJson } from './json.ts';
import { findSession, lockSession, type SessionRow } from './sessions.ts';

/**
 * The session whose client knows exactly this of it; null: there is none. It has no such place any more, until it is
 * given the next one: of two requests with the same conversation each goes on with one of its own.
 */
export async function takeConversation(
  tx: Tx,
  { tenantId, agentName, head }: Readonly<{ tenantId: string; agentName: string; head: Uint8Array }>,
): Promise<SessionRow | null> {
  const { rows } = await sql<{ id: string }>`
    update sessions set conversation_head = null where id = (
      select id from sessions
      where tenant_id = ${tenantId} and conversation_head = ${head} and agent_name = ${agentName}
        and status in ('idle', 'busy')
      order by updated_at desc limit 1 for no key update skip locked)
    returning id`.execute(tx);
  const id = rows[0]?.id;
  return id === undefined ? null : findSession(tx, tenantId, id);
}

/** Remembers what the client of a session knows of it now. */
export async function placeConversation(db: Db, tenantId: string, id: string, head: Uint8Array): Promise<void> {
  await db
    .updateTable('sessions')
    .set({ conversation_head: Buffer.from(head) })
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .execute();
}

/**
 * Gives the agent of a session what a request adds to it, in place of what an earlier one did.
 * @param adapt the agent as its steps are to have it, from the agent as the session was created with
 */
export async function adaptAgent(
  tx: Tx,
  tenantId: string,
  id: string,
  adapt: (base: unknown) => Promise<unknown>,
): Promise<void> {
  const session = await lockSession(tx, tenantId, id);
  const base = session.agent_base ?? session.agent_snapshot;
  const adapted = await adapt(base);
  await tx
    .updateTable('sessions')
    .set({ agent_snapshot: toJson(adapted), agent_base: toJson(base) })
    .where('id', '=', id)
    // As the database compares: the order of keys does not count.
    .where(sql<boolean>`agent_snapshot <> ${toJson(adapted)}::jsonb`)
    .execute();
}

/** Writes an earlier conversation into a session that nobody has used yet. */
export async function importConversation(
  tx: Tx,
  session: Readonly<{ tenantId: string; id: string }>,
  messages: readonly NewMessage[],
): Promise<void> {
  const rows = messages.map(({ role, parts }, index) => ({ id: newId(), seq: index + 1, role, parts }));
  await sql`
    with given as (
      select * from jsonb_to_recordset(${toJson(rows)}::jsonb) as g (id uuid, seq bigint, role text, parts jsonb)
    ), written as (
      insert into messages (id, tenant_id, session_id, seq, role, finish_reason, finished_at, metadata)
      select id, ${session.tenantId}, ${session.id}, seq, role,
        case when role = 'assistant' then 'other' end, clock_timestamp(), '{"imported": true}' from given
    )
    insert into parts (message_id, idx, session_id, tenant_id, type, content, tool_call_id, call_key, tool_name, state,
      finished_at)
    select g.id, e.ord - 1, ${session.id}, ${session.tenantId}, e.part ->> 'type', e.part - 'state',
      e.part ->> 'toolCallId', case when e.part ->> 'type' = 'tool' then g.id::text || ':' || (e.ord - 1) end,
      e.part ->> 'toolName', e.part ->> 'state', clock_timestamp()
    from given g, jsonb_array_elements(g.parts) with ordinality as e (part, ord)`.execute(tx);
  await tx
    .updateTable('sessions')
    .set({ message_seq: rows.length })
    .where('id', '=', session.id)
    .where('message_seq', '=', 0)
    .execute();
}

/** The session that a message is of; null: the tenant has no such message. */
export async function findSessionOfMessage(db: Db, tenantId: string, messageId: string): Promise<string | null> {
  const row = await db
    .selectFrom('messages')
    .select('session_id')
    .where('id', '=', messageId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return row?.session_id ?? null;
}
