import { sql } from 'kysely';
import { INDEXED_CHARS } from '../../domain/tunables.ts';
import type { Db } from '../db/database.ts';

/** Sessions of one transaction, of which a tenant has a part. */
const SESSIONS = { all: 100, ofTenant: 20 } as const;
/** Messages of one transaction. */
const MESSAGES_AT_ONCE = 200;

/**
 * Indexes the words of new messages of due sessions, for searches. Done twice it changes nothing.
 * @returns the number of messages that were looked at: with `most` there are more. Null: another process is at it
 */
export async function indexWords(db: Db, most: number = MESSAGES_AT_ONCE): Promise<number | null> {
  const { rows } = await sql<{ looked: number | null }>`
    select baton_index_words(${SESSIONS.all}, ${SESSIONS.ofTenant}, ${most}, ${INDEXED_CHARS}) as looked`.execute(db);
  return rows[0]?.looked ?? null;
}
