import { type Agent, type AgentSet, agentVersion } from '../agents/agent.ts';
import { afterAccepted } from '../commands/after-commit.ts';
import { beginChildIn } from '../commands/begin-child.ts';
import { BatonError, toErrorRecord } from '../domain/errors.ts';
import { formatId, parseId } from '../domain/ids.ts';
import { type ChildInput, childInputSchema, MAX_CHILD_DEPTH, taskText, tightest } from '../domain/run/child.ts';
import { refuseUnusableModels } from '../model/configured-models.ts';
import { derivedId } from '../platform/derived-id.ts';
import { inTransaction } from '../store/db/database.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import { type Child, noteBegin, noteRefused, readChildCall } from '../store/session/children.ts';
import { findSession, type NewChildSession } from '../store/session/sessions.ts';
import type { ChildLanes, DelegationDeps } from './deps.ts';

/**
 * Begins the session of a call, or continues it: session, message and run are one transaction under the lock of that
 * session alone. All ids are made of the call's key, so a second begin changes nothing. A call that is refused has its
 * result at once.
 * @param lanes a child that waits for an MCP server holds none of those that use the database
 * @throws errors of an unavailable Postgres: the child stays due
 */
export async function beginChild(
  deps: DelegationDeps,
  child: Child,
  signal: AbortSignal,
  lanes: ChildLanes,
): Promise<void> {
  const { tenantId } = child;
  try {
    const ready = await lanes.work.run(tenantId, () => readyChild(deps, child));
    const childSession = await lanes.pins.run(tenantId, () => pinTools(deps, ready, signal));
    await lanes.work.run(tenantId, () => begin(deps, child, ready, childSession));
  } catch (error) {
    if (!(error instanceof BatonError) || isStoreUnavailable(error)) throw error;
    await noteRefused(deps.db, child, toErrorRecord(error));
  }
}

/** `childSession`: the session to begin, without its agent's tools. Null: the call goes on with one that is there. */
type ReadyChild = Readonly<{
  input: ChildInput;
  agent: Agent;
  childSession: Omit<NewChildSession, 'agentSnapshot'> | null;
}>;

async function readyChild(deps: DelegationDeps, child: Child): Promise<ReadyChild> {
  const call = await readChildCall(deps.db, child);
  const input = readInput(call.input);
  const agents = await deps.agents.current();
  if (input.session !== undefined) {
    await refuseForeign(deps, child, input.session);
    return { input, agent: agentNow(agents, child), childSession: null };
  }
  refuseDepth(call);
  const agent = agentNow(agents, child);
  refuseUnusableModels(agent, agents, deps.modelCheck);
  return { input, agent, childSession: newSession(child, agent, call) };
}

/** @throws BatonError `tools_unavailable` */
async function pinTools(
  deps: DelegationDeps,
  { agent, childSession }: ReadyChild,
  signal: AbortSignal,
): Promise<NewChildSession | null> {
  return childSession === null
    ? null
    : { ...childSession, agentSnapshot: await deps.pinTools(agent, signal, deps.pinWithinMs) };
}

async function begin(
  deps: DelegationDeps,
  child: Child,
  { input, agent }: ReadyChild,
  childSession: NewChildSession | null,
): Promise<void> {
  const limits = tightest(agent.limits, child.limits);
  const { tenantId, sessionId, runId } = child;
  const messageId = derivedId('child', child.messageId, String(child.index), 'message');
  const request = { tenantId, sessionId, childSession, messageId, runId, task: taskText(input), limits };
  const accepted = await inTransaction(deps.db, async (tx) => {
    const outcome = await beginChildIn(tx, deps, request);
    if (await noteBegin(tx, child, outcome.runId)) return outcome;
    // Its parent was cancelled meanwhile, or another process has begun it: nothing of this one may stay.
    throw new AlreadyDone();
  }).catch((error: unknown) => {
    if (error instanceof AlreadyDone) return null;
    throw error;
  });
  if (accepted !== null) await afterAccepted(deps, sessionId, accepted);
}

class AlreadyDone extends Error {}

/** @throws BatonError `invalid_request` that names the field */
function readInput(args: unknown): ChildInput {
  const { data, error } = childInputSchema.safeParse(args);
  if (data !== undefined) return data;
  const [issue] = error.issues;
  throw new BatonError('invalid_request', `${issue?.path.join('.') || 'input'}: ${issue?.message ?? 'is invalid'}`);
}

/**
 * The session that the model goes on with: a child of the same session by the same agent.
 * @throws BatonError `invalid_request`
 */
async function refuseForeign({ db }: DelegationDeps, child: Child, sessionId: string): Promise<string> {
  const id = parseId('session', sessionId);
  const session = id === null ? null : await findSession(db, child.tenantId, id).catch(() => null);
  if (session?.parent_session_id === child.parentSessionId && session.agent_name === child.agent) return session.id;
  throw new BatonError(
    'invalid_request',
    `session: ${JSON.stringify(sessionId.slice(0, 100))} is no session that this tool has begun here. Leave it out to begin one.`,
  );
}

type Call = Awaited<ReturnType<typeof readChildCall>>;

/** @throws BatonError `limit_exceeded` */
function refuseDepth({ depth, rootSessionId }: Call): void {
  if (depth < MAX_CHILD_DEPTH) return;
  throw new BatonError(
    'limit_exceeded',
    `depth: this session is at depth ${depth} below ${formatId('session', rootSessionId)}, and none may be deeper. Do the task without another agent.`,
  );
}

const newSession = (child: Child, agent: Agent, { depth, rootSessionId, expiresAt, input }: Call) => ({
  id: child.sessionId,
  tenantId: child.tenantId,
  agentName: agent.name,
  agentVersion: agentVersion(agent),
  title: titleOf(input),
  metadata: {},
  expiresAt,
  parentSessionId: child.parentSessionId,
  rootSessionId,
  depth: depth + 1,
});

/** Its file may be gone since the session of the parent was created. @throws BatonError `agent_not_found` */
function agentNow(agents: AgentSet, { agent: name }: Child): Agent {
  if (agents.names().includes(name)) return agents.get(name);
  throw new BatonError('agent_not_found', `agent: there is no ${name} any more. Do the task without it.`);
}

const TITLE_CHARS = 100;

function titleOf(input: unknown): string | null {
  const { data } = childInputSchema.safeParse(input);
  const [line = ''] = data?.task.trim().split('\n') ?? [];
  return line === '' ? null : line.slice(0, TITLE_CHARS);
}
