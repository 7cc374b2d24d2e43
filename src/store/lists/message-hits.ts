import { sql } from 'kysely';
import { z } from 'zod';
import { MESSAGE_ROLES } from '../../domain/transcript/message.ts';
import { INDEXED_CHARS } from '../../domain/tunables.ts';
import type { Db } from '../db/database.ts';

const hitSchema = z.object({
  sessionId: z.string(),
  messageId: z.string(),
  seq: z.int(),
  role: z.enum(MESSAGE_ROLES),
  text: z.string(),
});

/** A message that has the words, and its text around the first of them. */
export type Hit = z.infer<typeof hitSchema>;

/** Characters before the first word, and of the whole text that is shown. */
const SHOWN = { before: 60, all: 200 } as const;

/** The texts of these messages of the tenant around the words, by their sessions. */
export async function readHits(
  db: Db,
  tenantId: string,
  places: readonly Readonly<{ id: string; seq: number }>[],
  words: readonly string[],
): Promise<ReadonlyMap<string, Hit>> {
  if (places.length === 0) return new Map();
  // Words have no ASCII punctuation, so they are patterns as they are. The match has the character before its word, so it
  // is found again at the same place.
  const pattern = `(?:^|[-!-/:-@\\[-\`{-~[:space:]])(?:${words.join('|')})`;
  const { rows } = await sql`
    select message.session_id as "sessionId", message.id as "messageId", message.seq, message.role,
      btrim(substring(part.text from greatest(1, part.place - ${SHOWN.before}) for ${SHOWN.all})) as text
    from unnest(${places.map(({ id }) => id)}::uuid[], ${places.map(({ seq }) => seq)}::bigint[]) as asked (id, seq)
    join messages message on message.session_id = asked.id and message.seq = asked.seq and message.tenant_id = ${tenantId}
    cross join lateral (
      select text, coalesce(strpos(text, (regexp_match(text, ${pattern}, 'i'))[1]), 0) as place, idx
      from (
        select left(content ->> 'text', ${INDEXED_CHARS}) as text, idx from parts
        where parts.session_id = message.session_id and parts.message_id = message.id and type = 'text' offset 0
      ) as texts order by place desc, idx limit 1
    ) as part`.execute(db);
  return new Map(
    z
      .array(hitSchema)
      .parse(rows)
      .map((hit) => [hit.sessionId, hit]),
  );
}
