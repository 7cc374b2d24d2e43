import type { Tx } from '../db/database.ts';
import { toJson, toWrittenJson } from '../db/json.ts';
import { findSession, lockSession, type SessionRow } from '../session/sessions.ts';
import { appendEvents } from '../transcript/events.ts';

/** A session's copy of an agent. */
export type KeptAgent = Readonly<{
  name: string;
  version: string;
  snapshot: Readonly<{ model: string }>;
  /** Differences from the agent of this name. */
  overrides: Readonly<Record<string, unknown>>;
}>;

export type CurrentAgent = Readonly<{ snapshot: unknown; overrides: Readonly<Record<string, unknown>> }>;

export type SwitchedAgent = Readonly<{
  session: SessionRow;
  /** The session's last event. Null: the switch changed nothing. */
  eventSeq: number | null;
}>;

/**
 * Gives a session another agent from its next step on; an active step keeps the one that it began with. The transcript
 * stays, the anchor of the context meter goes.
 * @param next derives the new agent from the present one
 * @throws BatonError `not_found`; errors of `next`
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
  // An active step may overwrite this with its own anchor. The meter does not use one whose model or fixed size differ.
  const contextState = toJson({ ...session.context_state, anchor: null });
  await tx
    .updateTable('sessions')
    .set({
      agent_name: name,
      agent_version: version,
      agent_snapshot: toWrittenJson(snapshot),
      agent_base: null,
      overrides: toWrittenJson(overrides),
      context_state: contextState,
    })
    .where('id', '=', sessionId)
    .execute();
  if (session.active_run_id !== null) {
    await tx.updateTable('runs').set({ model_position: 0 }).where('id', '=', session.active_run_id).execute();
  }
  const data = {
    from: String(session.agent_snapshot['model']),
    to: snapshot.model,
    ...(name !== session.agent_name && { agent: name }),
  };
  const eventSeq = await appendEvents(tx, sessionId, session.active_run_id, [{ type: 'llm:switched', data }]);
  return { session: await findSession(tx, tenantId, sessionId), eventSeq };
}
