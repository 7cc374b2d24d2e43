import { sql } from 'kysely';
import type { UserPart } from '../domain/transcript/message.ts';
import type { Db } from './database.ts';

/** A message as its author wrote it; the id is a UUID. */
export type WrittenMessage = Readonly<{ id: string; content: readonly UserPart[] }>;

/**
 * The messages that a step took up together, each as it was written, by the message of the transcript that they have
 * become. A message that was taken up alone is not in it: its own parts are what was written.
 * @param ids UUIDs of messages of the transcript
 */
export async function readWritten(
  db: Db,
  tenantId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly WrittenMessage[]>> {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<WrittenMessage & { message_id: string }>`
    select m.id as message_id, item.id, item.content
    from messages m
    cross join lateral jsonb_array_elements(m.metadata -> 'inbox') as told
    join inbox item on item.id = substr(told ->> 'id', 5)::uuid and item.session_id = m.session_id
    where m.id in (${sql.join(ids)}) and m.tenant_id = ${tenantId} and jsonb_array_length(m.metadata -> 'inbox') > 1
    order by item.seq`.execute(db);
  return Map.groupBy(rows, (row) => row.message_id);
}
