import { type Agent, type AgentSet, agentVersion } from '../agents/agent.ts';
import { enqueue } from '../claims/enqueue-next.ts';
import { BatonError, toErrorRecord } from '../domain/errors.ts';
import { formatId, parseId } from '../domain/ids.ts';
import { type ChildInput, childInputSchema, MAX_CHILD_DEPTH, taskText, tightest } from '../domain/run/child.ts';
import { refuseUnusableModels } from '../model/configured-models.ts';
import { derivedId } from '../platform/derived-id.ts';
import { type Child, noteBegun, noteRefused, readChildCall } from '../store/children.ts';
import { inTransaction, type Tx } from '../store/database.ts';
import { type AcceptedMessage, acceptMessage } from '../store/inbox.ts';
import { refuseOverStorage } from '../store/quota.ts';
import { findSession, insertChildSession, type NewChildSession } from '../store/sessions.ts';
import { isStoreUnavailable } from '../store/store-unavailable.ts';
import type { DelegationDeps } from './deps.ts';

/**
 * Begins the session of a call, or continues it: session, message and run are one transaction under the lock of that
 * session alone. All ids are made of the call's key, so a second begin changes nothing. A call that is refused has its
 * result at once.
 * @throws errors of an unavailable Postgres: the child stays due
 */
export async function beginChild(deps: DelegationDeps, child: Child, signal: AbortSignal): Promise<void> {
  try {
    await begin(deps, child, signal);
  } catch (error) {
    if (!(error instanceof BatonError) || isStoreUnavailable(error)) throw error;
    await noteRefused(deps.db, child, toErrorRecord(error));
  }
}

async function begin(deps: DelegationDeps, child: Child, signal: AbortSignal): Promise<void> {
  const { db } = deps;
  const call = await readChildCall(db, child);
  const input = readInput(call.input);
  const known = input.session === undefined ? null : await refuseForeign(deps, child, input.session);
  const fresh = known === null ? await newSession(deps, child, call, signal) : null;
  const agent = fresh?.agentSnapshot ?? agentNow(await deps.agents.current(), child);
  const limits = tightest(agent.limits, child.limits);
  const accepted = await inTransaction(db, async (tx): Promise<AcceptedMessage | null> => {
    if (fresh !== null) await insertOnce(tx, deps, fresh);
    const taken = await acceptMessage(tx, {
      tenantId: child.tenantId,
      sessionId: child.sessionId,
      messageId: derivedId('child', child.messageId, String(child.index), 'message'),
      runId: child.runId,
      content: [{ type: 'text', text: taskText(input) }],
      delivery: 'reject',
      limits,
      quota: deps.quota,
      inboxLimits: deps.inboxLimits,
    });
    if (await noteBegun(tx, child, taken.runId)) return taken;
    // Its parent was cancelled meanwhile, or another process has begun it: nothing of this one may stay.
    throw new AlreadyDone();
  }).catch((error: unknown) => {
    if (error instanceof AlreadyDone) return null;
    throw error;
  });
  if (accepted === null) return;
  deps.bus.announce(child.sessionId, accepted.eventSeq);
  if (accepted.job !== null) await enqueue(deps, [accepted.job]);
}

class AlreadyDone extends Error {}

/** @throws BatonError `invalid_request` that names the field */
function readInput(given: unknown): ChildInput {
  const { data, error } = childInputSchema.safeParse(given);
  if (data !== undefined) return data;
  const [issue] = error.issues;
  throw new BatonError('invalid_request', `${issue?.path.join('.') || 'input'}: ${issue?.message ?? 'is invalid'}`);
}

/**
 * The session that the model goes on with: a child of the same session by the same agent.
 * @throws BatonError `invalid_request`
 */
async function refuseForeign({ db }: DelegationDeps, child: Child, given: string): Promise<string> {
  const id = parseId('session', given);
  const session = id === null ? null : await findSession(db, child.tenantId, id).catch(() => null);
  if (session?.parent_session_id === child.parentSessionId && session.agent_name === child.agent) return session.id;
  throw new BatonError(
    'invalid_request',
    `session: ${JSON.stringify(given.slice(0, 100))} is no session that this tool has begun here. Leave it out to begin one.`,
  );
}

type Call = Awaited<ReturnType<typeof readChildCall>>;

/** @throws BatonError `limit_exceeded`, `agent_not_found`, `tools_unavailable`, `model_unavailable`, `price_unknown` */
async function newSession(
  deps: DelegationDeps,
  child: Child,
  { depth, rootSessionId, expiresAt, input }: Call,
  signal: AbortSignal,
) {
  if (depth >= MAX_CHILD_DEPTH) {
    throw new BatonError(
      'limit_exceeded',
      `depth: this session is at depth ${depth} below ${formatId('session', rootSessionId)}, and none may be deeper. Do the task without another agent.`,
    );
  }
  const agents = await deps.agents.current();
  const agent = agentNow(agents, child);
  refuseUnusableModels(agent, agents, deps.modelCheck);
  return {
    id: child.sessionId,
    tenantId: child.tenantId,
    agentName: agent.name,
    agentVersion: agentVersion(agent),
    agentSnapshot: await deps.pinTools(agent, signal),
    title: titleOf(input),
    metadata: {},
    expiresAt,
    parentSessionId: child.parentSessionId,
    rootSessionId,
    depth: depth + 1,
  };
}

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

async function insertOnce(tx: Tx, { quota }: DelegationDeps, session: NewChildSession): Promise<void> {
  await refuseOverStorage(tx, session.tenantId, quota);
  await insertChildSession(tx, session);
}
