import { createHash } from 'node:crypto';
import { type Agent, type AgentCatalogue, type AgentSet, agentVersion } from '../agents/agent.ts';
import { BatonError } from '../domain/errors.ts';
import { parseId } from '../domain/ids.ts';
import { type ModelCheck, refuseUnusableModels } from '../model/configured-models.ts';
import { type Db, inTransaction, type Tx } from '../store/database.ts';
import { findSession, findSessionByKey, insertSession, type NewSession, type SessionRow } from '../store/sessions.ts';

export type ChatSessionDeps = Readonly<{
  db: Db;
  agents: AgentCatalogue;
  modelCheck: ModelCheck;
  /** The agent as a new session keeps it. @throws BatonError `tools_unavailable` */
  pinTools: (agent: Agent, signal: AbortSignal) => Promise<Agent>;
  newId: () => string;
  /** Of conversations that name none; absent: the only one that there is. */
  defaultAgent?: string | undefined;
}>;

/** What a client of another protocol calls a conversation; `scope` keeps the names of protocols apart. */
export type ChatName = Readonly<{ tenantId: string; scope: 'ui' | 'openai'; name: string }>;

/** The session of that name, or by its own id. Null: there is none yet. @throws BatonError `not_found` (by its id) */
export async function findChatSession(db: Db, { tenantId, scope, name }: ChatName): Promise<SessionRow | null> {
  const id = parseId('session', name);
  return id === null ? findSessionByKey(db, tenantId, `${scope}:${name}`) : findSession(db, tenantId, id);
}

/**
 * Does something in the session of that name; in a new one of the agent, where there is none, which is there
 * only if the work succeeds.
 * @throws BatonError `agent_not_found`, `invalid_request` (no agent is named), `conflict` (`model` is another agent),
 *   `model_unavailable`, `not_found`, `tools_unavailable`; what `work` throws
 */
export async function inChatSession<Result>(
  deps: ChatSessionDeps,
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
    return await inTransaction(deps.db, async (tx) => work(tx, await insertSession(tx, fresh), true));
  } catch (error) {
    // Two first requests at once: the other one has made it.
    const made = error instanceof BatonError && error.code === 'conflict' ? await findChatSession(deps.db, chat) : null;
    if (made === null) throw error;
    return workIn(made);
  }
}

/**
 * A session of the agent, not yet stored.
 * @throws BatonError `agent_not_found`, `invalid_request`, `model_unavailable`, `tools_unavailable`
 */
export async function newChatSession(
  deps: ChatSessionDeps,
  tenantId: string,
  { agentName, signal }: Readonly<{ agentName: string | undefined; signal: AbortSignal }>,
): Promise<NewSession> {
  const agents = await deps.agents.current();
  const agent = agents.get(agentName ?? defaultAgentOf(agents, deps.defaultAgent));
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

/** A page goes on naming the agent that it began its chat with, whichever has taken over since. */
function withAgent({ scope }: ChatName, session: SessionRow, agentName: string | undefined): SessionRow {
  if (scope === 'ui' || agentName === undefined || agentName === session.agent_name) return session;
  throw new BatonError('conflict', `the conversation is one with the agent ${session.agent_name}`);
}

function defaultAgentOf(agents: AgentSet, defaultAgent: string | undefined): string {
  const names = agents.names();
  const only = names.length === 1 ? names[0] : undefined;
  const name = defaultAgent ?? only;
  if (name !== undefined) return name;
  throw new BatonError('invalid_request', `name an agent: ${names.join(', ')}`);
}

/**
 * A UUID (version 8, RFC 9562) that is always the same for the same words: what a client sends again is known by it.
 */
export function derivedId(...words: readonly string[]): string {
  const hash = createHash('sha256');
  for (const word of words) hash.update(`${word.length}:`).update(word);
  const hex = hash.digest('hex');
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}
