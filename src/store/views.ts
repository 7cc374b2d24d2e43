import { sql } from 'kysely';
import { z } from 'zod';
import { MESSAGE_ROLES, type ViewMessage } from '../domain/transcript/message.ts';
import type { Db } from './database.ts';
import { toViewPart } from './messages.ts';

/** The view as the database gives it. */
export const viewSchema = z.array(
  z.object({
    id: z.uuid(),
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
 * The pages of a view after the first. While the caller has the claim of the session's run their messages stay as they are:
 * the transcript is only added to, and the marks on it are changed by the run's own jobs.
 * @param nextAfter where the second page begins; null: there is none
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

/** A page of the session's view after a message. `nextAfter` is where the next one begins; null: there is none. */
async function readViewPage(
  db: Db,
  sessionId: string,
  after: number,
): Promise<Readonly<{ view: readonly ViewMessage[]; nextAfter: number | null }>> {
  const { rows } = await sql<{ view: unknown; nextAfter: number | null }>`
    select page.view, page.next_after as "nextAfter" from baton_view(${sessionId}, ${after}) as page`.execute(db);
  return { view: viewSchema.parse(rows[0]?.view), nextAfter: rows[0]?.nextAfter ?? null };
}

/** The newest messages of a session's view, in its order: so many, or fewer where it has no more. */
export async function readNewestOfView(db: Db, sessionId: string, count: number): Promise<readonly ViewMessage[]> {
  const { rows } = await sql<{ view: unknown }>`
    select page.view from baton_view(${sessionId}, coalesce((select seq from messages
      where session_id = ${sessionId} and not superseded and not is_summary and (role = 'user' or finish_reason is not null)
      order by seq desc offset ${count} limit 1), 0)) as page`.execute(db);
  return viewSchema.parse(rows[0]?.view);
}
