import { afterAccepted } from '../../commands/after-commit.ts';
import { createSessionIn } from '../../commands/create-session.ts';
import { type SentMessage, sendMessageIn } from '../../commands/send-message.ts';
import type { Caller } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { abortAfter } from '../../platform/abort-after.ts';
import { inTransaction, type Tx } from '../../store/db/database.ts';
import { findMessageRun, type MessageRun } from '../../store/session/message-run.ts';
import { findSession, findSessionId } from '../../store/session/sessions.ts';
import { newChatSession } from '../chat-session.ts';
import { followDeps } from '../follow-deps.ts';
import { followRun } from '../follow-run.ts';
import type { RunRef } from '../run-details.ts';
import type { RunUpdate } from '../run-updates.ts';
import type { AgentTask } from './agent-tools.ts';

/**
 * Gives the task to the agent: in its session, or in a new one. A call that was repeated finds the run that it began.
 * @param messageId derived from the call
 * @throws BatonError as `newChatSession` and `sendMessageIn`; `conflict`: the session is one of another agent, or the
 * call before had another agent, task or session
 */
export async function startTask(
  deps: HttpDeps,
  caller: Caller,
  given: AgentTask,
  { messageId, signal }: Readonly<{ messageId: string; signal: AbortSignal }>,
): Promise<RunRef> {
  const { agent, task } = given;
  const { tenantId } = caller;
  const sessionId = given.session === null ? null : await findSessionId(deps.db, tenantId, given.session);
  const known = await findMessageRun(deps.db, tenantId, messageId);
  if (known !== null) {
    refuseOtherTask(known, { agent, task, sessionId });
    return { tenantId, sessionId: known.sessionId, runId: known.runId };
  }
  const fresh = sessionId === null ? await newChatSession(deps, tenantId, { agentName: agent, signal }) : null;
  const accepted = await inTransaction(deps.db, async (tx): Promise<SentMessage & { sessionId: string }> => {
    if (fresh !== null) await createSessionIn(tx, deps, fresh);
    const of = fresh?.id ?? (await refuseForeignSession(tx, tenantId, agent, sessionId ?? ''));
    const content = [{ type: 'text', text: task }] as const;
    const message = { actor: caller, sessionId: of, messageId, content, delivery: 'steer' } as const;
    const stored = await sendMessageIn(tx, deps, message);
    return { ...stored, sessionId: of };
  });
  await afterAccepted(deps, accepted.sessionId, accepted);
  return { tenantId, sessionId: accepted.sessionId, runId: accepted.runId };
}

/** A gateway may give several clients one session id, whose requests then have the same numbers. */
function refuseOtherTask(
  known: MessageRun,
  { agent, task, sessionId }: Omit<AgentTask, 'session'> & Readonly<{ sessionId: string | null }>,
): void {
  const isSame = known.agent === agent && known.text === task && (sessionId ?? known.sessionId) === known.sessionId;
  if (isSame) return;
  const message =
    'another call had this session id (mcp-session-id) and request id: initialize a session for each client';
  throw new BatonError('conflict', message);
}

async function refuseForeignSession(tx: Tx, tenantId: string, agent: string, sessionId: string): Promise<string> {
  const session = await findSession(tx, tenantId, sessionId);
  if (session.agent_name === agent) return sessionId;
  throw new BatonError('conflict', `session ${formatId('session', sessionId)} is one of agent ${session.agent_name}`);
}

type Following = Readonly<{
  signal: AbortSignal;
  /** Called at once, and then often enough to keep a client from giving up. */
  tell: (message: string | undefined) => void;
  /** The longest wait. 0: until the end. */
  limitMs: number;
}>;

/** Follows the run until it has ended, waits for people, or has taken too long. */
export async function followTask(deps: HttpDeps, ref: RunRef, { signal, tell, limitMs }: Following): Promise<void> {
  tell(`run ${formatId('run', ref.runId)} of session ${formatId('session', ref.sessionId)}`);
  using limit = limitMs === 0 ? null : abortAfter(limitMs);
  const until = limit === null ? signal : AbortSignal.any([signal, limit.signal]);
  for await (const update of followRun(followDeps(deps), ref, { signal: until })) tell(wordsOf(update));
  signal.throwIfAborted();
}

function wordsOf(update: RunUpdate): string | undefined {
  switch (update.kind) {
    case 'step-started':
      return `step ${update.step}`;
    case 'tool-call':
      return `calls ${update.toolName}`;
    case 'compacting':
      return 'summarizes the older part of its context';
    default:
      return undefined;
  }
}
