import { sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { ToolChanges, ToolDrift } from '../../domain/run/tool-drift.ts';
import type { Db, Tx } from '../db/database.ts';
import { toJson, toWrittenJson } from '../db/json.ts';
import { lockSession } from '../session/sessions.ts';
import { appendEvents } from '../transcript/events.ts';
import type { Fence } from './claims.ts';

/**
 * Records once that a tool's definition differs from the pinned one, and writes the event. Later calls see that the
 * drift is known, and take no lock.
 * @returns the session's last event; null if the drift is known or the session has other definitions by now
 * @throws BatonError `fenced`
 */
export async function noteToolDrift(
  db: Db,
  fence: Fence,
  sessionId: string,
  { server, tool, change, pinnedHash, offeredHash }: ToolDrift,
): Promise<number | null> {
  const key = `${server}/${tool}`;
  // Includes the pinned hash: after a repin the same offer counts as a new drift.
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

/** New definitions for a session, with their differences from the present ones. */
type NewDefinitions = Readonly<{ pinnedTools: unknown; changes: readonly ToolChanges[] }>;

/**
 * Replaces the pinned tools of a session from its next step on. The anchor of the context meter goes with them.
 * @param agentVersion the agent that the definitions are for
 * @param next derives the new definitions from the present ones
 * @returns the session's last event; null if nothing has changed
 * @throws BatonError `not_found`; `conflict` if the session has another agent by now
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
  const pins = toWrittenJson({ pinnedTools });
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
