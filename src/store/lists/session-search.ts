import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import { readSessions, type SessionFilter, type SessionRow } from '../session/sessions.ts';
import { type FoundMessages, findMessages, tenantWord, type WordQuery } from './find-messages.ts';
import { type Hit, readHits } from './message-hits.ts';
import { placeOf } from './session-place.ts';

/** A filter that no index answers alone. */
export type SessionSearch = SessionFilter &
  Readonly<{
    /** Text: each of its words begins a word of the title, the external key or a metadata value, or one of a message. */
    words?: string;
    /** Whether messages are searched too. */
    inMessages?: boolean;
    /** Only sessions whose newest run has failed. */
    failed?: boolean;
    minCostUsd?: number;
  }>;

export type FoundSessions = Readonly<{
  rows: SessionRow[];
  /** The newest message of a session that has the words, by the session's id. */
  hits: ReadonlyMap<string, Hit>;
  /** The last session that was looked at, if the search stopped before its end. A next page begins after it. */
  stoppedAt: Readonly<{ createdAt: string; id: string }> | null;
}>;

/** Sessions that one search looks at. A page may be short for it, or empty. */
const MOST_LOOKED_AT = 5_000;
/** Failed runs, the newest ones, among which sessions are looked for. */
const MOST_FAILED_RUNS = 2_000;
/** Up to so many matches of words are sorted. Words with more are looked for in the newest sessions first. */
const MOST_SORTED = 5_000;

/** Sessions with the words in a message that are looked at where further conditions may refuse them. */
const MOST_SESSIONS_TO_REFUSE = 200;

const NO_MESSAGES: FoundMessages = { matches: [], bound: null };

/** Newest first. Looks at a bounded number of sessions: `stoppedAt` says where it gave up. */
export async function searchSessions(db: Db, search: SessionSearch): Promise<FoundSessions> {
  const { tenantId, limit } = search;
  const looked = hasRest(search) ? MOST_LOOKED_AT : limit;
  const query = search.words === undefined ? undefined : await toQuery(db, tenantId, search.words);
  if (query === null) return { rows: [], hits: new Map(), stoppedAt: null };
  const candidates = candidatesOf(search, query, looked);
  const messages =
    query !== undefined && search.inMessages === true
      ? await findMessages(db, { ...search, query, most: hasRest(search) ? MOST_SESSIONS_TO_REFUSE : limit })
      : NO_MESSAGES;
  // A join by key for each candidate: the planner would rather read all of `sessions` once.
  const { rows } = await sql<Found>`
    with ${asHits(messages)}, ${candidates},
    edge as (select * from (
        (select id, created_at from candidates order by created_at desc, id desc offset ${looked - 1} limit 1)
        union all select id, created_at from bound
      ) as either order by created_at desc, id desc limit 1),
    found as (
      select candidates.id, candidates.created_at from candidates, lateral (
        select 1 from sessions where sessions.id = candidates.id and ${restOf(search, query)} offset 0
      ) as kept order by candidates.created_at desc, candidates.id desc limit ${limit}
    )
    select found.id, edge.id as "edgeId", edge.created_at as "edgeAt",
      (select seq from hits where hits.id = found.id) as "hitSeq"
    from (values (1)) as one left join edge on true left join found on true
    order by found.created_at desc, found.id desc`.execute(db);
  const ids = rows.flatMap(({ id }) => (id === null ? [] : [id]));
  const [{ edgeId, edgeAt } = { edgeId: null, edgeAt: null }] = rows;
  const isWhole = ids.length === limit || edgeId === null || edgeAt === null;
  const places = rows.flatMap(({ id, hitSeq }) => (id === null || hitSeq === null ? [] : [{ id, seq: hitSeq }]));
  return {
    rows: await readSessions(db, tenantId, ids),
    hits: query === undefined ? new Map() : await readHits(db, tenantId, places, query.words),
    stoppedAt: isWhole ? null : { id: edgeId, createdAt: edgeAt.toISOString() },
  };
}

/** As `hits` and `bound` of a WITH. */
const asHits = ({ matches, bound }: FoundMessages): RawBuilder<unknown> => sql`
  hits as materialized (select * from unnest(${matches.map(({ id }) => id)}::uuid[],
    ${matches.map(({ createdAt }) => createdAt)}::timestamptz[], ${matches.map(({ seq }) => seq)}::bigint[]
  ) as hits (id, created_at, seq)),
  bound as materialized (select ${bound?.id ?? null}::uuid as id, ${bound?.createdAt ?? null}::timestamptz as created_at
    where ${bound !== null})`;

type Found = Readonly<{ id: string | null; edgeId: string | null; edgeAt: Date | null; hitSeq: number | null }>;

/** The sessions to look at, newest first, as `candidates` of a WITH. */
function candidatesOf(search: SessionSearch, query: WordQuery | undefined, looked: number): RawBuilder<unknown> {
  const newestFirst = sql`order by created_at desc, id desc limit ${looked}`;
  if (search.failed === true) {
    return sql`candidates as materialized (
      select id, created_at from (
        select distinct sessions.id, sessions.created_at from (
          select id, session_id, created_at from runs where tenant_id = ${search.tenantId} and status = 'failed'
          order by created_at desc, id desc limit ${MOST_FAILED_RUNS}
        ) as failed, lateral (select id, created_at from sessions where sessions.id = failed.session_id offset 0) as sessions
        where not exists (select 1 from runs as later
          where later.session_id = failed.session_id and (later.created_at, later.id) > (failed.created_at, failed.id))
      ) as sessions where ${IS_WITHIN} ${placeOf(search, sql.ref('id'))} ${newestFirst})`;
  }
  if (query !== undefined) {
    const rows = sql`select session_id as id, created_at from session_words
      where tenant_id = ${search.tenantId} ${placeOf(search, sql.ref('session_id'))}`;
    const isMatch = sql`words @@ ${query.begun}::tsquery`;
    // A walk through the newest sessions is long where few match, and a sort where many do. `is true` keeps the walk
    // from the index of the words.
    return sql`matched as materialized (${rows} and ${isMatch} limit ${MOST_SORTED + 1}),
      candidates as materialized (
        select id, created_at from (
          select id, created_at from matched where (select count(*) from matched) <= ${MOST_SORTED}
          union all
          (${rows} and (${isMatch}) is true and (select count(*) from matched) > ${MOST_SORTED}
            order by created_at desc, session_id desc limit ${looked})
          union
          select id, created_at from hits
        ) as either where ${IS_WITHIN} ${newestFirst})`;
  }
  return sql`candidates as materialized (
    select id, created_at from sessions where tenant_id = ${search.tenantId} ${placeOf(search, sql.ref('id'))}
      ${search.status === undefined ? sql`` : sql`and status = ${search.status}`}
      ${search.agent === undefined ? sql`` : sql`and agent_name = ${search.agent}`} ${newestFirst})`;
}

/** Not behind the place at which the search of messages gave up. */
const IS_WITHIN = sql`(not exists (select 1 from bound) or (created_at, id) >= (select created_at, id from bound))`;

/** Whether candidates may be refused. */
const hasRest = ({ words, failed, minCostUsd, status, agent, metadata }: SessionSearch): boolean =>
  minCostUsd !== undefined ||
  (words !== undefined && failed === true) ||
  status !== undefined ||
  agent !== undefined ||
  metadata !== undefined;

/** The conditions on a candidate. Those that chose the candidates already hold. */
function restOf(search: SessionSearch, query: WordQuery | undefined): RawBuilder<boolean> {
  const { tenantId, status, agent, metadata, minCostUsd, failed } = search;
  const isDrivenByFailure = failed === true && query !== undefined;
  const conditions = [
    sql`sessions.tenant_id = ${tenantId}`,
    ...(status === undefined ? [] : [sql`sessions.status = ${status}`]),
    ...(agent === undefined ? [] : [sql`sessions.agent_name = ${agent}`]),
    ...(metadata === undefined ? [] : [sql`sessions.metadata @> ${toJson(metadata)}::jsonb`]),
    ...(minCostUsd === undefined ? [] : [sql`sessions.cost_usd >= ${minCostUsd}`]),
    ...(isDrivenByFailure ? [hasWords(query)] : []),
  ];
  return sql<boolean>`${sql.join(conditions, sql` and `)}`;
}

const hasWords = (query: WordQuery) => sql`(sessions.id in (select id from hits) or exists (
  select 1 from session_words where session_id = sessions.id and words @@ ${query.begun}::tsquery))`;

/** Where Postgres splits words, at the end of a text. */
const LAST_WORD = '[^-!-/:-@\\[-`{-~[:space:]]+(?=[-!-/:-@\\[-`{-~[:space:]]*$)';
/** A shorter last word is looked for whole in messages: so many words begin with it. */
const MIN_BEGINNING_CHARS = 3;

/**
 * Split by Postgres, because its lower case may differ from that of JavaScript. In messages the last word alone may be a beginning: the index reads all words that begin so.
 * @returns null: the text has no words
 */
async function toQuery(db: Db, tenantId: string, text: string): Promise<WordQuery | null> {
  const { rows } = await sql<{ words: string[]; last: string[] }>`
    select baton_split_words(array[${text}::text]) as words,
      baton_split_words(regexp_match(${text}::text, ${LAST_WORD})) as last`.execute(db);
  const { words, last } = rows[0] ?? { words: [], last: [] };
  if (words.length === 0) return null;
  const isBeginning = (word: string): boolean => word.length >= MIN_BEGINNING_CHARS && last.includes(word);
  return {
    words,
    begun: words.map((word) => `${tenantWord(tenantId, word)}:*`).join(' & '),
    inMessages: words.map((word) => `${tenantWord(tenantId, word)}${isBeginning(word) ? ':*' : ''}`).join(' & '),
  };
}
