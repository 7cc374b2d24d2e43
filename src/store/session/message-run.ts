import { z } from 'zod';
import type { Db, Tx } from '../db/database.ts';

const contentSchema = z.array(z.looseObject({ type: z.string(), text: z.string().optional() }));

export type MessageRun = Readonly<{
  sessionId: string;
  runId: string;
  agent: string;
  /** Its parts of text, joined. */
  text: string;
}>;

/** The session and run of a message that was accepted. Null: there is none, or it was removed. */
export async function findMessageRun(db: Db | Tx, tenantId: string, messageId: string): Promise<MessageRun | null> {
  const row = await db
    .selectFrom('inbox')
    .innerJoin('sessions', 'sessions.id', 'inbox.session_id')
    .select(['inbox.session_id', 'inbox.run_id', 'inbox.content', 'sessions.next_run_id', 'sessions.agent_name'])
    .where('inbox.tenant_id', '=', tenantId)
    .where('inbox.id', '=', messageId)
    .executeTakeFirst();
  // Before its run begins, a message has the run that its session has promised.
  const runId = row?.run_id ?? row?.next_run_id ?? null;
  if (row === undefined || runId === null) return null;
  const parts = contentSchema.parse(row.content);
  const text = parts.map((part) => (part.type === 'text' ? (part.text ?? '') : '')).join('');
  return { sessionId: row.session_id, runId, agent: row.agent_name, text };
}
