import { type RawBuilder, sql } from 'kysely';
import type { SessionFilter } from '../session/sessions.ts';

export type SessionPlace = Pick<SessionFilter, 'since' | 'after'>;

/** The part of the list of sessions to look at, as further conditions on `created_at` and this id. */
export function placeOf({ since, after }: SessionPlace, id: RawBuilder<unknown>): RawBuilder<unknown> {
  const from = since === undefined ? sql`` : sql`and created_at >= ${new Date(since)}`;
  if (after === undefined) return from;
  return sql`${from} and (created_at, ${id}) < (${new Date(after.createdAt)}, ${after.id}::uuid)`;
}
