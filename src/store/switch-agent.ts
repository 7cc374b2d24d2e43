import type { Tx } from './database.ts';
import { appendEvents } from './events.ts';
import { toJson } from './json.ts';
import { findSession, lockSession, type SessionRow } from './sessions.ts';

/** An agent as a session keeps it. */
export type KeptAgent = Readonly<{
  name: string;
  version: string;
  snapshot: Readonly<{ model: string }>;
  /** What of that is different from the agent of this name. */
  overrides: Readonly<Record<string, unknown>>;
}>;

/** The agent that a session has. */
export type CurrentAgent = Readonly<{ snapshot: unknown; overrides: Readonly<Record<string, unknown>> }>;

export type SwitchedAgent = Readonly<{
  session: SessionRow;
  /** The session's last event, where the switch changed anything. */
  eventSeq: number | null;
}>;

/**
 * Gives a session another agent, from its next step on: the transcript stays, what is known of the size of its requests
 * does not. Under the session's lock in one transaction, whether a run is at work or not: a step reads its agent when
 * it begins. The same agent again changes nothing.
 * @param next the agent that takes over from the one that the session has
 * @throws BatonError `not_found`; what `next` throws
 */
export async function switchAgent(
  tx: Tx,
  at: Readonly<{ tenantId: string; sessionId: string }>,
  next: (current: CurrentAgent) => KeptAgent,
): Promise<SwitchedAgent> {
  const { tenantId, sessionId } = at;
  const session = await lockSession(tx, tenantId, sessionId);
  const current = { snapshot: session.agent_base ?? session.agent_snapshot, overrides: session.overrides };
  const { name, version, snapshot, overrides } = next(current);
  if (session.agent_name === name && session.agent_version === version) {
    return { session: await findSession(tx, tenantId, sessionId), eventSeq: null };
  }
  // A step that is under way writes its own state over this: the meter compares the model and the size of what every
  // request carries with the anchor's, so that it counts no further than for the agent that it belongs to.
  const contextState = toJson({ ...session.context_state, anchor: null });
  await tx
    .updateTable('sessions')
    .set({
      agent_name: name,
      agent_version: version,
      agent_snapshot: toJson(snapshot),
      agent_base: null,
      overrides: toJson(overrides),
      context_state: contextState,
    })
    .where('id', '=', sessionId)
    .execute();
  const data = {
    from: String(session.agent_snapshot['model']),
    to: snapshot.model,
    ...(name !== session.agent_name && { agent: name }),
  };
  const eventSeq = await appendEvents(tx, sessionId, session.active_run_id, [{ type: 'llm:switched', data }]);
  return { session: await findSession(tx, tenantId, sessionId), eventSeq };
}
