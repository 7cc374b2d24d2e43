import { afterAccepted, afterChanged } from '../../commands/after-commit.ts';
import { type AnsweredRun, afterAnsweredRun } from '../../commands/answer-call.ts';
import { createSessionIn } from '../../commands/create-session.ts';
import { type ResumedSession, resumeSessionIn } from '../../commands/resume-session.ts';
import { type SentMessage, sendMessageIn } from '../../commands/send-message.ts';
import { BatonError } from '../../domain/errors.ts';
import { importedTranscript } from '../../domain/model/imported-transcript.ts';
import { planConversation, planUnknownConversation } from '../../domain/transcript/plan-conversation.ts';
import type { RequiredAction } from '../../domain/transcript/required-action.ts';
import { NO_USAGE, subtractUsage, type Usage } from '../../domain/usage.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { lockKey } from '../../store/around/idempotency.ts';
import { inTransaction, type Tx } from '../../store/db/database.ts';
import { usageOf } from '../../store/db/usage-columns.ts';
import { adaptAgent, importConversation, inFirstSession, storeQuestion } from '../../store/session/conversations.ts';
import { findRun } from '../../store/session/runs.ts';
import { type LockedSession, lockSession, type NewSession } from '../../store/session/sessions.ts';
import { readUsageSince } from '../../store/transcript/events.ts';
import { answerCallsIn } from '../answer-calls.ts';
import { findChatSession } from '../chat-session.ts';
import { type AnsweredResults, candidatesOf, readFacts } from './conversation-facts.ts';
import type { ConversationRequest } from './conversation-request.ts';

/** The place of an answer to results of calls: it begins after `afterSeq`. `openActions`: the run's other ones. */
type AnswerPlace = Readonly<{ afterSeq: number; openActions: readonly RequiredAction[] }>;

/** The place of the answer to a request. */
export type ContinuedConversation = Readonly<{
  sessionId: string;
  runId: string;
  /** The accepted message, perhaps of an earlier request. Null: only calls were answered, or a stopped run resumed. */
  accepted: SentMessage | null;
  answerPlace: AnswerPlace | null;
  /** Usage of the run before this answer. */
  usedBefore: Usage;
}>;

/** `joined`: a message that steers the run whose calls were answered. */
type Continued = ContinuedConversation &
  Readonly<{ answered?: AnsweredRun | null; joined?: SentMessage | null; resumed?: ResumedSession }>;

/**
 * Goes on with a conversation: results of calls go to the run that waits for them, a message to the conversation's
 * session. An unknown conversation is imported into a new session. A repeated request gets the answer to the first.
 *
 * Locks the key, then one session. Promises that results and message are stored together and once.
 * @throws BatonError `already_answered`, `conflict`; as `sendMessageIn`, `resumeSessionIn` and `createSessionIn`; errors of
 * the request's `adapt` and `newSession`
 */
export async function continueConversation(
  deps: HttpDeps,
  request: ConversationRequest,
): Promise<ContinuedConversation> {
  const known = await inTransaction(deps.db, (tx) => continueKnown(tx, deps, request));
  const continued = known ?? (await beginUnknown(deps, request));
  await announce(deps, continued);
  return continued;
}

/** Null: no session knows the conversation. */
async function continueKnown(tx: Tx, deps: HttpDeps, request: ConversationRequest): Promise<Continued | null> {
  // A request with the same key waits here until this one has stored its message.
  if (request.hasKey) await lockKey(tx, `completion ${request.messageId}`);
  const { sessionName } = request;
  const { tenantId } = request.caller;
  const work = (session: LockedSession) => carryOut({ tx, deps, session }, request);
  if (sessionName === null) return inFirstSession(tx, tenantId, candidatesOf(tx, request), work);
  const named = await findChatSession(tx, { tenantId, scope: 'openai', name: sessionName });
  return named === null ? null : work(await lockSession(tx, tenantId, named.id));
}

async function beginUnknown(deps: HttpDeps, request: ConversationRequest): Promise<Continued> {
  const plan = planUnknownConversation(newsOf(request));
  if (plan.kind === 'refuse') throw new BatonError(plan.code, plan.message);
  // Between the transactions, neither of which may wait for an MCP server.
  const session = await request.newSession();
  const begin = () =>
    inTransaction(deps.db, async (tx) => {
      // Looks again: meanwhile a repetition may have begun the session.
      const known = await continueKnown(tx, deps, request);
      return known ?? importInto(tx, deps, request, session);
    });
  try {
    return await begin();
  } catch (error) {
    if (request.sessionName === null || !(error instanceof BatonError) || error.code !== 'conflict') throw error;
    // Of two first requests with one name, the other one has created the session.
    return begin();
  }
}

const newsOf = ({ content, results }: ConversationRequest) => ({
  hasMessage: content !== null,
  callIds: [...results.keys()],
});

/** A transaction that holds the lock of a session. */
type Locked<Session = LockedSession> = Readonly<{ tx: Tx; deps: HttpDeps; session: Session }>;

/** Null: the session is not that of the conversation. */
async function carryOut(locked: Locked, request: ConversationRequest): Promise<Continued | null> {
  const { tx, session } = locked;
  const plan = planConversation(newsOf(request), await readFacts(tx, session, request));
  const nothingBefore = { sessionId: session.id, accepted: null, answerPlace: null, usedBefore: NO_USAGE };
  switch (plan.kind) {
    case 'pass':
      return null;
    case 'refuse':
      throw new BatonError(plan.code, plan.message);
    case 'continue':
      return accept(locked, request);
    case 'answer':
      return answer(locked, request, plan);
    case 'replay-message':
      return { ...nothingBefore, runId: plan.message.runId, accepted: plan.message };
    case 'replay-results':
      if (plan.answeringRunId === plan.results.runId) return replayResults(locked, plan.results);
      return { ...nothingBefore, runId: plan.answeringRunId };
    case 'resume': {
      const resumed = await resume(locked, request);
      return { ...nothingBefore, runId: resumed.runId, accepted: plan.message, resumed };
    }
  }
}

async function accept(
  { tx, deps, session }: Locked<Parameters<typeof adaptAgent>[1]>,
  { adapt, content, messageId, output, ...request }: ConversationRequest,
): Promise<Continued> {
  await adaptAgent(tx, session, adapt);
  const message = { actor: request.caller, sessionId: session.id, messageId, content: content ?? [], output };
  const accepted = await sendMessageIn(tx, deps, { ...message, delivery: 'followup' });
  await storeQuestion(tx, session.id, request);
  return { sessionId: session.id, runId: accepted.runId, accepted, answerPlace: null, usedBefore: NO_USAGE };
}

async function importInto(
  tx: Tx,
  deps: HttpDeps,
  request: ConversationRequest,
  session: NewSession,
): Promise<Continued> {
  await createSessionIn(tx, deps, session);
  const messages = importedTranscript(request.history);
  if (messages.length > 0) await importConversation(tx, session, messages, request.content ?? []);
  const { id, agentSnapshot } = session;
  return accept({ tx, deps, session: { id, agent_base: null, agent_snapshot: agentSnapshot } }, request);
}

async function resume({ tx, deps, session }: Locked, request: ConversationRequest): Promise<ResumedSession> {
  await adaptAgent(tx, session, request.adapt);
  const resumed = await resumeSessionIn(tx, deps, { actor: request.caller, sessionId: session.id });
  await storeQuestion(tx, session.id, request);
  return resumed;
}

async function answer(
  { tx, deps, session }: Locked,
  { caller, content, results, messageId, adapt, ...request }: ConversationRequest,
  { callIds, openActions }: Readonly<{ callIds: readonly string[]; openActions: readonly RequiredAction[] }>,
): Promise<Continued> {
  const resultOf = ({ id }: RequiredAction) => (callIds.includes(id) ? (results.get(id) ?? null) : null);
  const answered = await answerCallsIn(tx, caller, session, resultOf, content ?? []);
  if (answered === null) throw new Error('a run without a question has open actions');
  const usedBefore = usageOf(await findRun(tx, caller.tenantId, answered.runId));
  await adaptAgent(tx, session, adapt);
  const place = { actor: caller, sessionId: session.id, messageId };
  const joined = content === null ? null : await sendMessageIn(tx, deps, { ...place, content, delivery: 'steer' });
  await storeQuestion(tx, session.id, request);
  const { runId, afterSeq } = answered;
  return {
    sessionId: session.id,
    runId,
    accepted: null,
    answerPlace: { afterSeq, openActions },
    usedBefore,
    answered,
    joined,
  };
}

/** The answer of the run that had the results before, with its usage after them. */
async function replayResults(
  { tx, session: { id: sessionId, tenant_id: tenantId } }: Locked,
  { runId, afterSeq, openActions }: AnsweredResults,
): Promise<Continued> {
  const since = await readUsageSince(tx, tenantId, { sessionId, runId }, afterSeq);
  const usedBefore = subtractUsage(usageOf(await findRun(tx, tenantId, runId)), since);
  return { sessionId, runId, accepted: null, answerPlace: { afterSeq, openActions }, usedBefore };
}

/** After the commit: tells the session's readers and adds the job of the run. */
async function announce(
  deps: HttpDeps,
  { sessionId, answered = null, accepted, joined = null, resumed }: Continued,
): Promise<void> {
  await afterAnsweredRun(deps, answered);
  for (const message of [accepted, joined]) if (message !== null) await afterAccepted(deps, sessionId, message);
  if (resumed !== undefined) await afterChanged(deps, sessionId, resumed);
}
