import { type RawBuilder, sql } from 'kysely';
import { WORD_WINDOW_BITS } from '../../domain/tunables.ts';
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

type Place = Readonly<{ id: string; createdAt: Date }>;

/** The newest message of a session that has all words. */
type Match = Place & Readonly<{ seq: number }>;

/** Matches, newest session first. `bound`: sessions older than this one have not been looked at. Null: all have been. */
export type FoundMessages = Readonly<{ matches: readonly Match[]; bound: Place | null }>;

/** Messages that are read at once in the order of the list, and all of one search. */
const WALK = { atOnce: 500, most: 2_000 } as const;
/** One message of so many has the words: that is often, and walking on is faster than the index. */
const OFTEN = 20;
/** Windows that one search asks the index for, the matches that it takes from one, and from all time at once. */
const WINDOWS = { most: 20, matches: 256, matchesOfAllTime: 64 } as const;
const ALL_TIME = WORD_WINDOW_BITS.length;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';

type Search = SessionPlace & Readonly<{ tenantId: string; query: WordQuery; most: number }>;

/**
 * The newest sessions, at most so many, with a message that has all words, by a bounded number of reads.
 *
 * It walks through the newest messages first: words that many have are found there at once. Words that few have are then
 * asked of the index, in windows of time that grow or shrink with what they hold, so that no search reads matches that
 * its page has no place for.
 */
export async function findMessages(db: Db, search: Search): Promise<FoundMessages> {
  const found = new Map<string, Match>();
  for (let offset = 0; ; offset += WALK.atOnce) {
    const walk = await walkNewest(db, search, offset);
    take(found, walk.matches);
    if (walk.end === null) return { matches: newestFirst(found), bound: null };
    const isFull = [...found.keys()].filter((id) => id !== walk.end?.id).length >= search.most;
    if (isFull) return firstOf(found, search.most);
    const isOften = walk.matchCount * OFTEN >= WALK.atOnce;
    if (!isOften) return findInWindows(db, search, found, { ...walk, end: walk.end });
    if (offset + WALK.atOnce >= WALK.most) return { matches: newestFirst(found), bound: walk.whole ?? walk.end };
  }
}

/** Goes on behind a walk, with the index. */
async function findInWindows(
  db: Db,
  search: Search,
  found: Map<string, Match>,
  walk: Walk & Readonly<{ end: Place }>,
): Promise<FoundMessages> {
  let bound = walk.whole ?? walk.end;
  let beforeMs = walk.end.createdAt.getTime() + 1;
  let level = walk.matchCount === 0 ? ALL_TIME : levelFor(walk, search.most);
  // Below a window that held too many, so that none is asked for twice.
  let highest = ALL_TIME;
  for (let asked = 0; asked < WINDOWS.most; asked++) {
    const window = await readWindow(db, search, { level, beforeMs });
    if (window.isTooMany) {
      if (level === 0) break;
      highest = level - 1;
      level = asked === 0 ? Math.min(highest, levelFor(walk, search.most)) : highest;
      continue;
    }
    take(found, window.matches);
    if (found.size >= search.most) return firstOf(found, search.most);
    if (window.fromMs <= new Date(search.since ?? 0).getTime()) return { matches: newestFirst(found), bound: null };
    beforeMs = window.fromMs;
    bound = { createdAt: new Date(beforeMs), id: FIRST_ID };
    if (window.matchCount * 16 <= WINDOWS.matches) level = Math.min(level + 1, highest);
  }
  return { matches: newestFirst(found), bound };
}

/** The level whose windows hold about a page, if the words are as frequent as in the walk. */
function levelFor({ matchCount, spanMs }: Walk, most: number): number {
  const wantedSeconds = ((spanMs / 1_000) * most) / Math.max(matchCount, 1);
  const level = WORD_WINDOW_BITS.findIndex((bits) => 2 ** bits >= wantedSeconds);
  return level === -1 ? ALL_TIME - 1 : level;
}

function take(found: Map<string, Match>, matches: readonly Match[]): void {
  for (const match of matches) if (match.seq > (found.get(match.id)?.seq ?? 0)) found.set(match.id, match);
}

function newestFirst(found: ReadonlyMap<string, Match>): readonly Match[] {
  return [...found.values()].sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime() || (a.id < b.id ? 1 : -1));
}

function firstOf(found: ReadonlyMap<string, Match>, most: number): FoundMessages {
  const matches = newestFirst(found).slice(0, most);
  return { matches, bound: matches.at(-1) ?? null };
}

type Walk = Readonly<{
  matches: readonly Match[];
  /** Matches among the messages that this walk was the first to read. */
  matchCount: number;
  spanMs: number;
  /** The session at which the walk stopped, maybe between two of its messages. Null: it came to the end of the list. */
  end: Place | null;
  /** The last session that was read whole. */
  whole: Place | null;
}>;

async function walkNewest(db: Db, search: Search, offset: number): Promise<Walk> {
  const { tenantId, query } = search;
  const { rows } = await sql<MatchRow & { count: number; matchCount: number; ends: Ends }>`
    with walked as materialized (
      select session_id as id, created_at, seq, words @@ ${query.inMessages}::tsquery as is_match from message_words
      where tenant_id = ${tenantId} ${placeOf(search, sql.ref('session_id'))}
      order by created_at desc, session_id desc offset ${offset} limit ${WALK.atOnce}),
    matched as materialized (select id, created_at, seq from walked where is_match),
    shown as (${shownOf(sql`matched`, search.most)}),
    sessions_walked as materialized (select distinct id, created_at from walked)
    select (select count(*)::integer from walked) as count, (select count(*)::integer from matched) as "matchCount",
      array(select json_build_object('id', id, 'createdAt', created_at) from (
        (select * from sessions_walked order by created_at, id limit 2) union all
        (select * from sessions_walked order by created_at desc, id desc limit 1)) as ends) as ends, shown.*
    from (values (1)) as one left join shown on true`.execute(db);
  const [{ count, matchCount, ends } = { count: 0, matchCount: 0, ends: [] }] = rows;
  const places = ends.map(({ id, createdAt }) => ({ id, createdAt: new Date(createdAt) }));
  const [end = null, before = null] = places;
  const newest = places.at(-1) ?? end;
  return {
    matches: rows.flatMap(matchOf),
    matchCount,
    spanMs: end === null || newest === null ? 0 : newest.createdAt.getTime() - end.createdAt.getTime(),
    end: count < WALK.atOnce ? null : end,
    whole: before === null || before.id === end?.id ? null : before,
  };
}

type Ends = readonly Readonly<{ id: string; createdAt: string }>[];
type MatchRow = Readonly<{ id: string | null; createdAt: Date; seq: number }>;

const matchOf = ({ id, createdAt, seq }: MatchRow): readonly Match[] => (id === null ? [] : [{ id, createdAt, seq }]);

type Window = Readonly<{
  matches: readonly Match[];
  matchCount: number;
  /** There are more than are taken from one window: those that were read may be any of them. */
  isTooMany: boolean;
  /** Where the window begins. */
  fromMs: number;
}>;

/** Sessions that were created in two stretches of this level, the newer one cut at `beforeMs`. */
async function readWindow(
  db: Db,
  search: Search,
  { level, beforeMs }: Readonly<{ level: number; beforeMs: number }>,
): Promise<Window> {
  const { tenantId, query } = search;
  const bits = WORD_WINDOW_BITS[level];
  const most = bits === undefined ? WINDOWS.matchesOfAllTime : WINDOWS.matches;
  const newest = bits === undefined ? 0 : Math.floor((beforeMs - 1) / 1_000 / 2 ** bits);
  const words = [newest, newest - 1].map((stretch) => tenantWord(tenantId, `#${bits}:${stretch}`));
  const asked = bits === undefined ? query.inMessages : `${query.inMessages} & (${words.join(' | ')})`;
  // The planner knows the words of most messages, and would rather read the whole table for them. It does not see into
  // a subquery; `offset 0` keeps it from the index of the list.
  const { rows } = await sql<MatchRow & { matchCount: number }>`
    with matched as materialized (
      select id, created_at, seq from (
        select session_id as id, created_at, seq from message_words
        where tenant_id = ${tenantId} and words @@ (select ${asked}::tsquery) offset 0
      ) as every where created_at < ${new Date(beforeMs)} ${placeOf(search, sql.ref('id'))} limit ${most + 1}),
    kept as materialized (select * from matched where (select count(*) from matched) <= ${most}),
    shown as (${shownOf(sql`kept`, search.most)})
    select (select count(*)::integer from matched) as "matchCount", shown.*
    from (values (1)) as one left join shown on true`.execute(db);
  const matchCount = rows[0]?.matchCount ?? 0;
  return {
    matches: rows.flatMap(matchOf),
    matchCount,
    isTooMany: matchCount > most,
    fromMs: bits === undefined ? Number.NEGATIVE_INFINITY : (newest - 1) * 2 ** bits * 1_000,
  };
}

/** The newest message of each session that is neither superseded nor reverted, looked up in their order until there are enough. */
const shownOf = (matched: RawBuilder<unknown>, most: number): RawBuilder<unknown> => sql`
  select distinct on (one.created_at, one.id) one.id, one.created_at as "createdAt", one.seq
  from (select * from ${matched} order by created_at desc, id desc, seq desc offset 0) as one cross join lateral (
    select from messages where messages.session_id = one.id and messages.seq = one.seq
      and reverted_no is null and not superseded offset 0
  ) as message
  order by one.created_at desc, one.id desc, one.seq desc limit ${most}`;

/** As it stands in a query, quoted. Words have no quote or backslash. */
export function tenantWord(tenantId: string, word: string): string {
  return `'${tenantId.replaceAll('\\', '\\\\').replaceAll("'", "''")} ${word}'`;
}
