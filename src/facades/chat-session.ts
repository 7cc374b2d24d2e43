import { type AgentSet, agentVersion } from '../agents/agent.ts';
import { defaultAgentOf } from '../agents/default-agent.ts';
import { createSessionIn } from '../commands/create-session.ts';
import { BatonError } from '../domain/errors.ts';
import { parseId } from '../domain/ids.ts';
import type { HttpDeps } from '../http/http-deps.ts';
import { refuseUnusableModels } from '../model/configured-models.ts';
import { type Db, inTransaction, type Tx } from '../store/db/database.ts';
import { findSession, findSessionByKey, type NewSession, type SessionRow } from '../store/session/sessions.ts';

/** A client's own name for a conversation. `scope` keeps the names of protocols apart. */
export type ChatName = Readonly<{ tenantId: string; scope: 'ui' | 'hook'; name: string }>;

/**
 * The session with that name, or with that id if the name is a session's id. Null: there is none yet.
 * @throws BatonError `not_found` (by id)
 */
export async function findChatSession(db: Db, { tenantId, scope, name }: ChatName): Promise<SessionRow | null> {
  const id = parseId('session', name);
  return id === null ? findSessionByKey(db, tenantId, `${scope}:${name}`) : findSession(db, tenantId, id);
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
  const known = await findChatSession(deps.db, chat);
  if (known !== null) return workIn(known);
  const { tenantId, scope, name } = chat;
  const fresh = { ...(await newChatSession(deps, tenantId, request)), externalKey: `${scope}:${name}` };
  try {
    return await inTransaction(deps.db, async (tx) => work(tx, await createSessionIn(tx, deps, fresh), true));
  } catch (error) {
    // Of two first requests at once, the other one has created the session.
    const made = error instanceof BatonError && error.code === 'conflict' ? await findChatSession(deps.db, chat) : null;
    if (made === null) throw error;
    return workIn(made);
  }
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
