import { sql } from 'kysely';
import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { ToolChanges, ToolDrift } from '../domain/run/tool-drift.ts';
import type { Fence } from './claims.ts';
import type { Db, Tx } from './database.ts';
import { appendEvents } from './events.ts';
import { toJson } from './json.ts';
import { lockSession } from './sessions.ts';

/**
 * Writes an event of a tool that has drifted from what the session has pinned, once for what it has become: further
 * calls find that it is known, and take no lock.
 * @returns the session's last event; null where nothing was written: it is known, or the session has other definitions
 * by now
 * @throws BatonError `fenced`
 */
export async function noteToolDrift(
  db: Db,
  fence: Fence,
  sessionId: string,
  { server, tool, change, pinnedHash, offeredHash }: ToolDrift,
): Promise<number | null> {
  const key = `${server}/${tool}`;
  // With what it was compared with: other definitions make another drift, and nothing has to be forgotten.
  const found = `${pinnedHash} ${offeredHash ?? 'gone'}`;
  const isNews = sql<boolean>`drifted_tools ->> ${key}::text is distinct from ${found}::text
    and agent_snapshot #>> array['pinnedTools', ${server}::text, 'hash'] = ${pinnedHash}::text`;
  const news = await db
    .selectFrom('sessions')
    .select('id')
    .where('id', '=', sessionId)
    .where(isNews)
    .executeTakeFirst();
  if (news === undefined) return null;
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ session: string | null }>`
      select session_id as session from baton_lock_claimed_run(${fence.runId}, ${fence.epoch}, ${fence.claimId})`.execute(
      tx,
    );
    if (rows[0]?.session !== sessionId) throw new BatonError('fenced', 'another worker has the run');
    const noted = await tx
      .updateTable('sessions')
      .set({ drifted_tools: sql`drifted_tools || ${toJson({ [key]: found })}::jsonb` })
      .where('id', '=', sessionId)
      .where(isNews)
      .returning('id')
      .executeTakeFirst();
    if (noted === undefined) return null;
    return appendEvents(tx, sessionId, fence.runId, [{ type: 'tools:drifted', data: { server, tool, change } }]);
  });
}

/** What a session takes in place of the definitions that it has. */
type NewDefinitions = Readonly<{ pinnedTools: unknown; changes: readonly ToolChanges[] }>;

/**
 * Gives a session other definitions of its agent's MCP tools, from its next step on. What is known of the size of its
 * requests goes with the old ones.
 * @param agentVersion of the agent that the definitions are for
 * @param next the definitions in place of those that the session's copy of the agent has
 * @returns the session's last event where anything has changed
 * @throws BatonError `not_found`, `conflict` where the session has got another agent
 */
export async function replacePinnedTools(
  tx: Tx,
  at: Readonly<{ tenantId: string; sessionId: string; agentVersion: string }>,
  next: (current: unknown) => NewDefinitions,
): Promise<number | null> {
  const { tenantId, sessionId, agentVersion } = at;
  const session = await lockSession(tx, tenantId, sessionId);
  if (session.agent_version !== agentVersion) {
    throw new BatonError('conflict', `session ${formatId('session', sessionId)} has got another agent meanwhile`);
  }
  const { pinnedTools, changes } = next(session.agent_snapshot['pinnedTools']);
  if (changes.length === 0) return null;
  const pins = toJson({ pinnedTools });
  await tx
    .updateTable('sessions')
    .set({
      agent_snapshot: sql`agent_snapshot || ${pins}::jsonb`,
      agent_base: sql`agent_base || ${pins}::jsonb`,
      context_state: toJson({ ...session.context_state, anchor: null }),
    })
    .where('id', '=', sessionId)
    .execute();
  const events = changes.map((data) => ({ type: 'tools:pinned' as const, data }));
  return appendEvents(tx, sessionId, session.active_run_id, events);
}
