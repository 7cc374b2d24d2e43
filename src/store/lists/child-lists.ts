import { sql } from 'kysely';
import { z } from 'zod';
import { CHILD_MODES, CHILD_STATES, childResultSchema } from '../../domain/run/child.ts';
import type { Db } from '../db/database.ts';

/** Most characters of a child's last text. */
const WORDS_CHARS = 20_000;

const listedSchema = z.object({
  messageId: z.string(),
  index: z.int(),
  toolName: z.string(),
  agent: z.string(),
  mode: z.enum(CHILD_MODES),
  parentRunId: z.string(),
  sessionId: z.string(),
  runId: z.string(),
  state: z.enum(CHILD_STATES),
  asks: z.int(),
  /** The child's run exists: it was begun and has not been deleted. */
  isThere: z.boolean(),
  /** Status with which the child's run ended. Null: it has not ended. */
  status: childResultSchema.shape.status.nullable(),
  steps: z.int().nullable(),
  tokens: z.int().nullable(),
  costUsd: z.number().nullable(),
  createdAt: z.date(),
  endedAt: z.date().nullable(),
});
export type ListedChild = Readonly<z.infer<typeof listedSchema>>;

type Of = Readonly<{ parentSessionId: string; limit: number; parentRunId?: string }>;

/**
 * The children that calls of a session have begun, the last one first. The caller has read the session for its tenant.
 */
export async function listChildren(db: Db, { parentSessionId, limit, parentRunId }: Of): Promise<ListedChild[]> {
  const ofRun = parentRunId === undefined ? sql`` : sql`and parent_run_id = ${parentRunId}`;
  const { rows } = await sql`
    select message_id as "messageId", idx as index, tool_name as "toolName", agent_name as agent, mode,
      parent_run_id as "parentRunId", session_id as "sessionId", run_id as "runId", state, asks,
      exists (select 1 from runs where runs.id = run_id) as "isThere",
      result ->> 'status' as status, (result ->> 'steps')::integer as steps, (result ->> 'tokens')::bigint as tokens,
      (result ->> 'costUsd')::double precision as "costUsd", created_at as "createdAt", ended_at as "endedAt"
    from children where parent_session_id = ${parentSessionId} ${ofRun}
    order by created_at desc, message_id desc, idx desc limit ${limit}`.execute(db);
  return z.array(listedSchema).parse(rows);
}

/** The last text of a child's model. Null: it is no child of this session. */
export async function readLastWords(db: Db, parentSessionId: string, sessionId: string): Promise<string | null> {
  const { rows } = await sql<{ words: string }>`
    select coalesce((
      select left(string_agg(p.content ->> 'text', '' order by p.idx), ${WORDS_CHARS}) from parts p
      where p.session_id = s.id and p.type = 'text' and p.message_id = (
        select m.id from messages m where m.session_id = s.id and m.role = 'assistant' and not m.superseded
          and not m.is_summary and exists (
            select 1 from parts t where t.session_id = s.id and t.message_id = m.id and t.type = 'text')
        order by m.seq desc limit 1)), '[nothing yet]') as words
    from sessions s where s.id = ${sessionId} and s.parent_session_id = ${parentSessionId}`.execute(db);
  return rows[0]?.words ?? null;
}

/** Asks that the run of a child in the background stops. False: the child is not at work, or not of this session. */
export async function askToStop(db: Db, parentSessionId: string, sessionId: string): Promise<boolean> {
  const { rows } = await sql`
    update children set stop_requested = true, due_at = clock_timestamp()
    where parent_session_id = ${parentSessionId} and session_id = ${sessionId} and state = 'running'
      and mode = 'background' returning 1`.execute(db);
  return rows.length > 0;
}
