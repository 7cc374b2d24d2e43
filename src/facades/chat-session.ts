import { type AgentSet, agentVersion } from '../agents/agent.ts';
import { defaultAgentOf } from '../agents/default-agent.ts';
import { openSessionIn } from '../commands/create-session.ts';
import { BatonError } from '../domain/errors.ts';
import { parseSessionRef, type SessionRef } from '../domain/run/session-ref.ts';
import type { HttpDeps } from '../http/http-deps.ts';
import { refuseUnusableModels } from '../model/configured-models.ts';
import { type Db, inTransaction, type Tx } from '../store/db/database.ts';
import { findSession, findSessionByKey, type NewSession, type SessionRow } from '../store/session/sessions.ts';

/** A client's own name for a conversation. `scope` keeps the names of protocols apart; `key` is for keys of sessions. */
export type ChatName = Readonly<{ tenantId: string; scope: 'ui' | 'hook' | 'key'; name: string }>;

/** The name of a chat that may be the id of a session, or `key:` and its key. */
const refOf = ({ scope, name }: ChatName): SessionRef => {
  const ref = scope === 'ui' ? parseSessionRef(name) : null;
  return ref ?? { key: scope === 'key' ? name : `${scope}:${name}` };
};

/**
 * The session with that name, or that one if the name is a session's id or `key:` and its key. Null: there is none yet.
 * @throws BatonError `not_found` (by id)
 */
export async function findChatSession(db: Db, chat: ChatName): Promise<SessionRow | null> {
  const ref = refOf(chat);
  return 'id' in ref ? findSession(db, chat.tenantId, ref.id) : findSessionByKey(db, chat.tenantId, ref.key);
}

/**
 * Works in the session with that name. If there is none, the transaction also creates one of the agent, so it exists
 * only if the work succeeds.
 * @throws BatonError `agent_not_found`, `invalid_request` (no agent is named), `conflict` (`model` is another agent),
 * `model_unavailable`, `not_found`, `tools_unavailable`; errors of `work`
 */
export async function inChatSession<Result>(
  deps: HttpDeps,
  chat: ChatName,
  request: Readonly<{ agentName: string | undefined; signal: AbortSignal }>,
  work: (tx: Tx, session: SessionRow, isNew: boolean) => Promise<Result>,
): Promise<Result> {
  const workIn = (session: SessionRow): Promise<Result> =>
    inTransaction(deps.db, (tx) => work(tx, withAgent(chat, session, request.agentName), false));
  const existing = await findChatSession(deps.db, chat);
  if (existing !== null) return workIn(existing);
  const ref = refOf(chat);
  const fresh = {
    ...(await newChatSession(deps, chat.tenantId, request)),
    ...('key' in ref && { externalKey: ref.key }),
  };
  return inTransaction(deps.db, async (tx) => {
    const { session, isNew } = await openSessionIn(tx, deps, fresh);
    return work(tx, withAgent(chat, session, request.agentName), isNew);
  });
}

/** A new session, not yet stored. @throws BatonError as `inChatSession`, except `conflict` and `not_found` */
export async function newChatSession(
  deps: HttpDeps,
  tenantId: string,
  { agentName, signal }: Readonly<{ agentName: string | undefined; signal: AbortSignal }>,
): Promise<NewSession> {
  const agents = await deps.agents.current();
  const agent = agents.get(agentName ?? requireDefault(agents, deps.defaultAgent));
  refuseUnusableModels(agent, agents, deps.modelCheck);
  return {
    id: deps.newId(),
    tenantId,
    agentName: agent.name,
    agentVersion: agentVersion(agent),
    agentSnapshot: await deps.pinTools(agent, signal),
    title: null,
    metadata: {},
  };
}

/** A page of the UI keeps naming the agent with which its chat began, even after a switch of the agent. */
function withAgent({ scope }: ChatName, session: SessionRow, agentName: string | undefined): SessionRow {
  if (scope === 'ui' || agentName === undefined || agentName === session.agent_name) return session;
  throw new BatonError('conflict', `the conversation is one with the agent ${session.agent_name}`);
}

function requireDefault(agents: AgentSet, configured: string | undefined): string {
  const name = defaultAgentOf(agents, configured);
  if (name !== null) return name;
  throw new BatonError('invalid_request', `name an agent: ${agents.names().join(', ')}`);
}
