import { sql } from 'kysely';
import { z } from 'zod';
import { MESSAGE_ROLES, type ViewMessage } from '../../domain/transcript/message.ts';
import type { Db } from '../db/database.ts';
import { toViewPart } from './messages.ts';

/** A page of a view, as SQL returns it. */
export const viewSchema = z.array(
  z.object({
    // A client may choose any id for its message.
    id: z.guid(),
    seq: z.number().int(),
    role: z.enum(MESSAGE_ROLES),
    model: z.string().nullable(),
    parts: z.array(
      z
        .tuple([z.unknown(), z.string().nullable(), z.unknown()])
        .transform(([content, state, marks]) => toViewPart(content, state, marks)),
    ),
  }),
);

/**
 * The pages of a view after the first. They stay unchanged while the caller has claimed the session's run, because only
 * jobs of that run change marks.
 * @param nextAfter start of the second page; null: there is none
 */
export async function readRestOfView(db: Db, sessionId: string, nextAfter: number | null): Promise<ViewMessage[]> {
  const rest: ViewMessage[] = [];
  for (let after = nextAfter; after !== null; ) {
    const page = await readViewPage(db, sessionId, after);
    rest.push(...page.view);
    after = page.nextAfter;
  }
  return rest;
}

/** `nextAfter`: start of the next page. Null: this is the last one. */
async function readViewPage(
  db: Db,
  sessionId: string,
  after: number,
): Promise<Readonly<{ view: readonly ViewMessage[]; nextAfter: number | null }>> {
  const { rows } = await sql<{ view: unknown; nextAfter: number | null }>`
    select page.view, page.next_after as "nextAfter" from baton_view(${sessionId}, ${after}) as page`.execute(db);
  return { view: viewSchema.parse(rows[0]?.view), nextAfter: rows[0]?.nextAfter ?? null };
}

/** The newest messages of a session's view, in order. At most `count`. */
export async function readNewestOfView(db: Db, sessionId: string, count: number): Promise<readonly ViewMessage[]> {
  const { rows } = await sql<{ view: unknown }>`
    select page.view from baton_view(${sessionId}, coalesce((select seq from messages
      where session_id = ${sessionId} and not superseded and reverted_no is null and not is_summary and (role = 'user' or finish_reason is not null)
      order by seq desc offset ${count} limit 1), 0)) as page`.execute(db);
  return viewSchema.parse(rows[0]?.view);
}
