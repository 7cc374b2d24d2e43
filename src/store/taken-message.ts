import type { Db, Tx } from './database.ts';

/** The session and run of a message that was accepted. Null: there is none, or it was removed. */
export async function findTakenMessage(
  db: Db | Tx,
  tenantId: string,
  messageId: string,
): Promise<Readonly<{ sessionId: string; runId: string }> | null> {
  const row = await db
    .selectFrom('inbox')
    .innerJoin('sessions', 'sessions.id', 'inbox.session_id')
    .select(['inbox.session_id', 'inbox.run_id', 'sessions.next_run_id'])
    .where('inbox.id', '=', messageId)
    .where('sessions.tenant_id', '=', tenantId)
    .executeTakeFirst();
  // Before its run begins, a message has the run that its session has promised.
  const runId = row?.run_id ?? row?.next_run_id ?? null;
  return row === undefined || runId === null ? null : { sessionId: row.session_id, runId };
}
