import { type RawBuilder, sql } from 'kysely';
import { z } from 'zod';
import { MESSAGE_ROLES } from '../../domain/transcript/message.ts';
import { INDEXED_CHARS } from '../../domain/tunables.ts';
import type { Db } from '../db/database.ts';
import { placeOf, type SessionPlace } from './session-place.ts';

/** Words to look for, and the queries for them, in which each word begins with its tenant. */
export type WordQuery = Readonly<{
  words: readonly string[];
  /** For words of sessions. */
  begun: string;
  /** For words of messages. */
  inMessages: string;
}>;

/** Messages of the newest sessions that one search looks through. */
const MOST_WALKED = 2_000;
/** So many matches among them are many: the index is not asked. */
const MANY_NEAR = 100;
/** Matches of words in the index that one search takes. */
const MOST_MATCHES = 3_000;

/** In place of `foundMessages` where no messages are searched. */
export const NO_MESSAGES = sql`
  hits as materialized (select null::uuid as id, null::timestamptz as created_at, null::bigint as seq where false),
  bound as materialized (select id, created_at from hits)`;

/** Not superseded, nor taken out by a revert. */
const isShown = (found: string) => sql`exists (select 1 from (
  select reverted_no, superseded from messages
  where messages.session_id = ${sql.ref(found)}.id and messages.seq = ${sql.ref(found)}.seq offset 0
) as message where reverted_no is null and not superseded)`;

/**
 * The messages with all words, as `hits` of a WITH: a session has one row for each of its messages. `bound` has a row if
 * it gave up: the last session that it looked at.
 *
 * Words that many messages have are found in the newest sessions at once, and their lists in the index would be long to
 * read. So the index is asked only for words that those have seldom.
 */
export function foundMessages(
  search: SessionPlace & Readonly<{ tenantId: string; limit: number }>,
  query: WordQuery,
): RawBuilder<unknown> {
  const isMatch = sql`words @@ ${query.inMessages}::tsquery`;
  const rows = sql`from message_words where tenant_id = ${search.tenantId} ${placeOf(search, sql.ref('session_id'))}`;
  return sql`
    walked as materialized (
      select session_id as id, created_at, seq, ${isMatch} as is_match ${rows}
      order by created_at desc, session_id desc limit ${MOST_WALKED}),
    near as materialized (select id, created_at, seq from walked where is_match and ${isShown('walked')}),
    reach as materialized (
      select (select count(*) from walked) = ${MOST_WALKED} as is_cut,
        (select count(*) >= ${MANY_NEAR} or count(distinct id) >= ${search.limit} from near) as is_common),
    far as materialized (
      select session_id as id, created_at, seq ${rows} and ${isMatch}
        and (select is_cut and not is_common from reach) limit ${MOST_MATCHES + 1}),
    gives_up as materialized (
      select is_cut and (is_common or (select count(*) from far) > ${MOST_MATCHES}) as it from reach),
    hits as materialized (
      select * from near union
      select * from far where not (select it from gives_up) and ${isShown('far')}),
    bound as materialized (
      select id, created_at from walked where (select it from gives_up)
      order by created_at, id limit 1)`;
}

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
