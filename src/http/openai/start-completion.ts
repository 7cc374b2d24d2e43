import { createHash } from 'node:crypto';
import { agentSchema } from '../../agents/agent.ts';
import type { Caller } from '../../domain/access.ts';
import {
  type ConversationMessage,
  canonicalConversation,
  leavesCallsOpen,
  splitConversation,
} from '../../domain/conversation.ts';
import { BatonError } from '../../domain/errors.ts';
import { fromModelMessages } from '../../domain/from-model-messages.ts';
import { parseCallId } from '../../domain/ids.ts';
import type { RequiredAction } from '../../domain/required-action.ts';
import { NO_USAGE, type Usage } from '../../domain/usage.ts';
import { findChatSession, inChatSession, newChatSession } from '../../facades/chat-session.ts';
import {
  agentFor,
  type CompletionRequest,
  conversationOf,
  ownerOf,
  toModelMessages,
} from '../../facades/openai/completion-request.ts';
import { adaptAgent, findSessionOfMessage, importConversation, takeConversation } from '../../store/conversations.ts';
import type { Tx } from '../../store/database.ts';
import { type AcceptedMessage, acceptMessage } from '../../store/inbox.ts';
import { findRun } from '../../store/runs.ts';
import { findSession, insertSession, type SessionRow } from '../../store/sessions.ts';
import { answerCallsIn, type ContinuedRun, tellAnswered } from '../answer-calls.ts';
import { contentField, toParts } from '../content-field.ts';
import type { HttpDeps } from '../http-deps.ts';
import { ProblemError } from '../problem.ts';
import { usageOf } from '../responses.ts';
import { tellAccepted } from '../tell-accepted.ts';
import { refuseInvalid } from '../validation.ts';

/** A completion under way. */
export type StartedCompletion = Readonly<{
  tenantId: string;
  sessionId: string;
  runId: string;
  /** The conversation that the answer is to, and whose it is. */
  conversation: readonly ConversationMessage[];
  owner: readonly unknown[];
  /** The message that was taken; null: only calls were answered. */
  accepted: AcceptedMessage | null;
  continued: (Pick<ContinuedRun, 'afterSeq'> & Readonly<{ open: readonly RequiredAction[] }>) | null;
  /** What the run had used before. */
  usedBefore: Usage;
}>;

type Request = Readonly<{
  body: CompletionRequest;
  /** What the client calls the session; absent: it is known by the conversation. */
  sessionName: string | undefined;
  signal: AbortSignal;
}>;

/**
 * Takes what is new in a request: results of calls go to the run that waits for them, messages to the session of this
 * conversation. A conversation that is not known yet is imported.
 * @throws BatonError as `acceptMessage` and `inChatSession`; ProblemError `invalid_request`, `conflict`
 */
export async function startCompletion(deps: HttpDeps, caller: Caller, request: Request): Promise<StartedCompletion> {
  const conversation = conversationOf(request.body);
  const owner = ownerOf(request.body);
  const split = splitConversation(conversation);
  const { history, news } = split;
  const said = news.flatMap(({ role, text }) => (role === 'user' ? [{ type: 'text' as const, text }] : []));
  const hasResults = news.some(({ role }) => role === 'tool');
  if (news.length === 0)
    throw new ProblemError('invalid_request', 'messages: the last one must be of the user or a tool');
  if (leavesCallsOpen(split)) {
    refuse('messages', 'the calls of the assistant’s last message need a message of role tool each');
  }
  const content = said.length === 0 ? null : checkedContent(said);
  const waiting = hasResults ? await giveResults(deps, caller, request, news, content) : null;
  if (waiting !== null) return { tenantId: caller.tenantId, conversation, owner, accepted: null, ...waiting };
  if (content === null) throw new ProblemError('conflict', 'No run waits for these results of tools');
  const earlier = hasResults ? conversation.filter((message) => !isSaid(message, news)) : history;
  const { sessionId, accepted } = await inSession(deps, caller, { ...request, earlier }, async (tx, session) => {
    await adapt(deps, tx, caller.tenantId, session.id, request.body);
    const ids = { tenantId: caller.tenantId, sessionId: session.id, messageId: deps.newId(), runId: deps.newId() };
    const message = { ...ids, content: toParts(content), delivery: 'followup' as const, quota: deps.quota };
    const taken = await acceptMessage(tx, message);
    return { sessionId: session.id, accepted: taken };
  });
  await tellAccepted(deps, sessionId, accepted);
  const { tenantId } = caller;
  return {
    tenantId,
    sessionId,
    runId: accepted.runId,
    conversation,
    owner,
    accepted,
    continued: null,
    usedBefore: NO_USAGE,
  };
}

const isSaid = (message: ConversationMessage, news: readonly ConversationMessage[]): boolean =>
  message.role === 'user' && news.includes(message);

function refuse(path: string, message: string): never {
  throw new ProblemError('invalid_request', `${path}: ${message}`, { errors: [{ path, message }] });
}

function checkedContent(said: readonly Readonly<{ type: 'text'; text: string }>[]) {
  const parsed = contentField.safeParse(said);
  refuseInvalid({ target: 'json', ...parsed });
  return parsed.data ?? [];
}

/**
 * Gives the run that waits for them the results, and with them what the user says: all of it or nothing. Null: no run of the
 * conversation waits for any of them.
 */
async function giveResults(
  deps: HttpDeps,
  caller: Caller,
  { body, sessionName }: Request,
  news: readonly ConversationMessage[],
  content: ReturnType<typeof checkedContent> | null,
): Promise<Pick<StartedCompletion, 'sessionId' | 'runId' | 'continued' | 'usedBefore'> | null> {
  const results = new Map(news.flatMap((message) => (message.role === 'tool' ? [[message.callId, message.text]] : [])));
  const session = await sessionOfCalls(deps, caller.tenantId, sessionName, [...results.keys()]);
  if (session === null || session.active_run_id === null || session.agent_name !== body.model) return null;
  const before = await findRun(deps.db, caller.tenantId, session.active_run_id);
  const { tenantId } = caller;
  const { answered, accepted } = await deps.db.transaction().execute(async (tx) => {
    const given = await answerCallsIn(tx, caller, session, ({ id, kind }) => {
      const output = results.get(id);
      return output === undefined || kind === 'approval' ? null : { output };
    });
    if (given !== null) await adapt(deps, tx, tenantId, session.id, body);
    if (given === null || content === null) return { answered: given, accepted: null };
    const ids = { tenantId, sessionId: session.id, messageId: deps.newId(), runId: deps.newId() };
    const message = { ...ids, content: toParts(content), delivery: 'steer' as const, quota: deps.quota };
    return { answered: given, accepted: await acceptMessage(tx, message) };
  });
  await tellAnswered(deps, answered);
  if (accepted !== null) await tellAccepted(deps, session.id, accepted);
  if (answered === null) return null;
  const open = answered.actions.filter(({ id }) => !results.has(id));
  const { runId, afterSeq } = answered;
  return { sessionId: session.id, runId, continued: { afterSeq, open }, usedBefore: usageOf(before) };
}

/** The ids of calls are ours: they say which session is meant. */
async function sessionOfCalls(
  { db }: HttpDeps,
  tenantId: string,
  sessionName: string | undefined,
  callIds: readonly string[],
): Promise<SessionRow | null> {
  if (sessionName !== undefined) return findChatSession(db, { tenantId, scope: 'openai', name: sessionName });
  for (const callId of callIds) {
    const place = parseCallId(callId);
    const sessionId = place === null ? null : await findSessionOfMessage(db, tenantId, place.messageId);
    if (sessionId !== null) return findSession(db, tenantId, sessionId);
  }
  return null;
}

type Earlier = Request & Readonly<{ earlier: readonly ConversationMessage[] }>;

/** Works in the session of that name, or in the one whose client knows exactly the earlier conversation, or in a new one. */
async function inSession<Result>(
  deps: HttpDeps,
  { tenantId }: Caller,
  { body, sessionName, earlier, signal }: Earlier,
  work: (tx: Tx, session: SessionRow) => Promise<Result>,
): Promise<Result> {
  const agentName = body.model;
  const { messages } = fromModelMessages(toModelMessages(earlier));
  const begin = async (tx: Tx, session: SessionRow, isNew: boolean): Promise<Result> => {
    if (isNew && messages.length > 0) await importConversation(tx, { tenantId, id: session.id }, messages);
    return work(tx, session);
  };
  if (sessionName !== undefined) {
    return inChatSession(deps, { tenantId, scope: 'openai', name: sessionName }, { agentName, signal }, begin);
  }
  // Before the transaction, which must not wait for a server; a conversation that goes on has no need of it.
  const fresh = newChatSession(deps, tenantId, { agentName, signal });
  await Promise.allSettled([fresh]);
  return deps.db.transaction().execute(async (tx) => {
    const head = earlier.length === 0 ? null : headOf(ownerOf(body), earlier);
    const known = head === null ? null : await takeConversation(tx, { tenantId, agentName, head });
    return known === null ? begin(tx, await insertSession(tx, await fresh), true) : begin(tx, known, false);
  });
}

/** By which a conversation is known again. @param owner as `ownerOf` */
export function headOf(owner: readonly unknown[], conversation: readonly ConversationMessage[]): Uint8Array {
  return createHash('sha256')
    .update(JSON.stringify([owner, canonicalConversation(conversation)]))
    .digest();
}

/** Gives the session's agent what the request adds to it. @throws ProblemError `invalid_request` (a tool's name is taken) */
function adapt(deps: HttpDeps, tx: Tx, tenantId: string, sessionId: string, body: CompletionRequest): Promise<void> {
  return adaptAgent(tx, tenantId, sessionId, async (base) => {
    const adapted = agentFor(body, base);
    if ((body.tools ?? []).length === 0) return adapted;
    // What is wrong with these is no fault of the request.
    await deps.toolsOf(agentSchema.parse(base));
    try {
      await deps.toolsOf(adapted);
    } catch (error) {
      if (!(error instanceof BatonError) || error.code !== 'config_invalid') throw error;
      refuse('tools', error.message.replace(/^\S+: /, ''));
    }
    return adapted;
  });
}
