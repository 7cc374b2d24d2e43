import { sql } from 'kysely';
import type { UserPart } from '../../domain/transcript/message.ts';
import type { Db } from '../db/database.ts';

/** A message as its author wrote it. The id is a UUID. */
export type WrittenMessage = Readonly<{ id: string; content: readonly UserPart[] }>;

/**
 * The original messages of each transcript message that a step made from several. A transcript message made from one
 * has no entry, because its own parts are the original.
 * @param ids UUIDs of transcript messages of the session
 */
export async function readWritten(
  db: Db,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly WrittenMessage[]>> {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<WrittenMessage & { message_id: string }>`
    select m.id as message_id, item.id, item.content
    from messages m
    cross join lateral jsonb_array_elements(m.metadata -> 'inbox') as told
    join inbox item on item.tenant_id = m.tenant_id and item.id = substr(told ->> 'id', 5)::uuid
      and item.session_id = m.session_id
    where m.id in (${sql.join(ids)}) and m.session_id = ${sessionId} and m.tenant_id = ${tenantId}
      and jsonb_array_length(m.metadata -> 'inbox') > 1
    order by item.seq`.execute(db);
  return Map.groupBy(rows, (row) => row.message_id);
}
