import { findSentIn, type SentMessage } from '../../commands/send-message.ts';
import { parseCallId } from '../../domain/ids.ts';
import type { ConversationFacts, EarlierResults } from '../../domain/transcript/plan-conversation.ts';
import type { RequiredAction } from '../../domain/transcript/required-action.ts';
import type { Tx } from '../../store/db/database.ts';
import { readQuestion } from '../../store/lists/open-question.ts';
import {
  findAnsweredSessions,
  findAskedSessions,
  findRepeatableMessage,
  findSessionOfAnswer,
  findSessionOfQueued,
} from '../../store/session/conversations.ts';
import { findUnstoppedTask } from '../../store/session/runs.ts';
import type { LockedSession } from '../../store/session/sessions.ts';
import { findTakenOutputs } from '../../store/transcript/given-outputs.ts';
import type { ConversationRequest, ToolResults } from './conversation-request.ts';

/** Earlier results and the place of the answer to them: it begins after `afterSeq`. */
export type AnsweredResults = EarlierResults & Readonly<{ afterSeq: number; openActions: readonly RequiredAction[] }>;

export type Facts = ConversationFacts<SentMessage, AnsweredResults>;

/** Ids of the sessions that a conversation without a name may be in, the likeliest first. */
export async function* candidatesOf(tx: Tx, request: ConversationRequest): AsyncGenerator<string> {
  const { results, historyHash } = request;
  const { tenantId } = request.caller;
  const owner = { tenantId, agentName: request.agentName };
  const ofKey = request.hasKey ? await findSessionOfQueued(tx, tenantId, request.messageId) : null;
  if (ofKey !== null) yield ofKey;
  const ofCalls = await sessionOfCalls(tx, tenantId, results);
  if (ofCalls !== null) yield ofCalls;
  if (request.isRetry && !request.hasKey) yield* await findAskedSessions(tx, owner, request.questionHash);
  if (historyHash !== null && results.size === 0) yield* await findAnsweredSessions(tx, owner, historyHash);
}

/** The session whose run asked for these results: ids of calls name the message that has them. */
async function sessionOfCalls(tx: Tx, tenantId: string, results: ToolResults): Promise<string | null> {
  for (const callId of results.keys()) {
    const place = parseCallId(callId);
    const sessionId = place === null ? null : await findSessionOfAnswer(tx, tenantId, place.messageId);
    if (sessionId !== null) return sessionId;
  }
  return null;
}

/** Reads what the plan for the request needs to know about a locked session. */
export async function readFacts(tx: Tx, session: LockedSession, request: ConversationRequest): Promise<Facts> {
  const { results, agentName } = request;
  const isNamed = request.sessionName !== null;
  const isSameQuestion = isSameHash(session.conversation_asked, request.questionHash);
  // Only results, and messages that would wait behind a run with open calls, depend on the question.
  const question = results.size > 0 || isNamed ? await readQuestion(tx, session.tenant_id, session) : null;
  return {
    isNamed,
    otherAgent: session.agent_name === agentName ? null : session.agent_name,
    openActions: question?.actions ?? [],
    earlierResults: results.size === 0 ? null : await readEarlierResults(tx, session, results),
    earlierMessage: await findEarlierMessage(tx, session, request, isSameQuestion),
    isSameQuestion,
    isSameHistory: isSameHash(session.conversation_head, request.historyHash),
  };
}

const isSameHash = (stored: Uint8Array | null, hash: Uint8Array | null): boolean =>
  stored !== null && hash !== null && Buffer.compare(stored, hash) === 0;

/** The message that the request repeats, by its key or because OpenAI's library says so. */
async function findEarlierMessage(
  tx: Tx,
  { id: sessionId, tenant_id: tenantId }: LockedSession,
  { hasKey, isRetry, messageId }: Pick<ConversationRequest, 'hasKey' | 'isRetry' | 'messageId'>,
  isSameQuestion: boolean,
): Promise<SentMessage | null> {
  if (hasKey) return findSentIn(tx, { tenantId, sessionId, messageId });
  const repeatedId = isRetry && isSameQuestion ? await findRepeatableMessage(tx, sessionId) : null;
  return repeatedId === null ? null : findSentIn(tx, { tenantId, sessionId, messageId: repeatedId });
}

/** Null: no run of the session ever had any of the results, or its events are gone. */
async function readEarlierResults(
  tx: Tx,
  { id: sessionId, tenant_id: tenantId }: LockedSession,
  results: ToolResults,
): Promise<AnsweredResults | null> {
  const calls = [...results].flatMap(([callId, given]) => {
    const place = parseCallId(callId);
    return place === null ? [] : [{ ...place, given }];
  });
  const outputs = await findTakenOutputs(tx, { tenantId, sessionId }, calls);
  const [runId] = outputs.map((output) => output.runId);
  if (runId === undefined) return null;
  const isSame = outputs.every((output) => output.isSame);
  const question = await readQuestion(tx, tenantId, { id: sessionId, active_run_id: runId });
  if (question === null && isSame) return null;
  const answeringRunId = await findUnstoppedTask(tx, { tenantId, sessionId, runId });
  return { runId, isSame, answeringRunId, afterSeq: question?.afterSeq ?? 0, openActions: question?.actions ?? [] };
}
