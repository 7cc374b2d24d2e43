import { parseCallId } from '../domain/ids.ts';
import type { SessionRef } from '../domain/run/session-ref.ts';
import type { ConversationFacts, EarlierResults } from '../domain/transcript/plan-conversation.ts';
import type { OutputAnswer, RequiredAction } from '../domain/transcript/required-action.ts';
import type { Tx } from '../store/db/database.ts';
import { readQuestion } from '../store/lists/open-question.ts';
import {
  type ConversationOwner,
  findAnsweredSessions,
  findRepeatableMessage,
  findSessionOfMessage,
  findSessionOfQueued,
  findSessionsByQuestion,
  inFirstSession,
} from '../store/session/conversations.ts';
import { findUnstoppedTask } from '../store/session/runs.ts';
import { findSessionByKey, type LockedSession, lockSession } from '../store/session/sessions.ts';
import { findOutputMatches } from '../store/transcript/output-matches.ts';
import { findSentIn, type SentMessage } from './send-message.ts';

/** The signs by which a request finds the session of its conversation. */
export type ConversationSigns = Readonly<{
  owner: ConversationOwner;
  /** The session that the client names. Null: the conversation identifies it. */
  sessionName: SessionRef | null;
  /** Id of the request's message: with an idempotency key the same each time. */
  messageId: string;
  hasKey: boolean;
  /** The client's library makes the request again. */
  isRetry: boolean;
  /** Hash of the whole conversation. */
  questionHash: Uint8Array;
  /** Hash of the messages up to the assistant's last one. Null: the conversation begins. */
  historyHash: Uint8Array | null;
  /** The client's results of calls, by the ids of the calls. */
  results: ReadonlyMap<string, OutputAnswer>;
}>;

/** Earlier results and the place of the answer to them: it begins after `afterSeq`. */
export type AnsweredResults = EarlierResults & Readonly<{ afterSeq: number; openActions: readonly RequiredAction[] }>;

/**
 * Works in the session of the conversation, with its lock. `work` has null for one that is not the session.
 * @returns null: no session knows the conversation
 * @throws BatonError `not_found` (a session by its id); errors of `work`
 */
export async function inConversation<Result>(
  tx: Tx,
  signs: ConversationSigns,
  work: (session: LockedSession) => Promise<Result | null>,
): Promise<Result | null> {
  const { owner, sessionName } = signs;
  if (sessionName === null) return inFirstSession(tx, owner.tenantId, candidatesOf(tx, signs), work);
  const named = 'id' in sessionName ? sessionName : await findSessionByKey(tx, owner.tenantId, sessionName.key);
  return named === null ? null : work(await lockSession(tx, owner.tenantId, named.id));
}

/** Ids of the sessions that a conversation without a name may be in, the likeliest first. */
async function* candidatesOf(tx: Tx, signs: ConversationSigns): AsyncGenerator<string> {
  const { owner, results, historyHash } = signs;
  const { tenantId } = owner;
  const ofKey = signs.hasKey ? await findSessionOfQueued(tx, tenantId, signs.messageId) : null;
  if (ofKey !== null) yield ofKey;
  const ofCalls = await findSessionOfCalls(tx, tenantId, [...results.keys()]);
  if (ofCalls !== null) yield ofCalls;
  if (signs.isRetry && !signs.hasKey) yield* await findSessionsByQuestion(tx, owner, signs.questionHash);
  if (historyHash !== null && results.size === 0) yield* await findAnsweredSessions(tx, owner, historyHash);
}

/** The session whose run made these calls: their ids name the message that has them. */
async function findSessionOfCalls(tx: Tx, tenantId: string, callIds: readonly string[]): Promise<string | null> {
  for (const callId of callIds) {
    const place = parseCallId(callId);
    const sessionId = place === null ? null : await findSessionOfMessage(tx, tenantId, place.messageId);
    if (sessionId !== null) return sessionId;
  }
  return null;
}

/** Reads what the plan for a request needs to know about a locked session. */
export async function readFacts(
  tx: Tx,
  session: LockedSession,
  signs: ConversationSigns,
): Promise<ConversationFacts<SentMessage, AnsweredResults>> {
  const { owner, results } = signs;
  const isNamed = signs.sessionName !== null;
  const isSameQuestion = isSameHash(session.conversation_asked, signs.questionHash);
  // Only results, and messages that would wait behind a run with open calls, depend on the question.
  const question = results.size > 0 || isNamed ? await readQuestion(tx, owner.tenantId, session) : null;
  return {
    isNamed,
    otherAgent: session.agent_name === owner.agentName ? null : session.agent_name,
    openActions: question?.actions ?? [],
    earlierResults: results.size === 0 ? null : await readEarlierResults(tx, session, results),
    earlierMessage: await findEarlierMessage(tx, session, signs, isSameQuestion),
    isSameQuestion,
    isSameHistory: isSameHash(session.conversation_head, signs.historyHash),
  };
}

const isSameHash = (stored: Uint8Array | null, hash: Uint8Array | null): boolean =>
  stored !== null && hash !== null && Buffer.compare(stored, hash) === 0;

/** The message that the request repeats, by its key or because the client's library says so. */
async function findEarlierMessage(
  tx: Tx,
  { id: sessionId, tenant_id: tenantId }: LockedSession,
  { hasKey, isRetry, messageId }: ConversationSigns,
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
  results: ConversationSigns['results'],
): Promise<AnsweredResults | null> {
  const calls = [...results].flatMap(([callId, result]) => {
    const place = parseCallId(callId);
    return place === null ? [] : [{ ...place, given: result }];
  });
  const outputs = await findOutputMatches(tx, { tenantId, sessionId }, calls);
  const [runId] = outputs.map((output) => output.runId);
  if (runId === undefined) return null;
  const isSame = outputs.every((output) => output.isSame);
  const question = await readQuestion(tx, tenantId, { id: sessionId, active_run_id: runId });
  if (question === null && isSame) return null;
  const answeringRunId = await findUnstoppedTask(tx, { tenantId, sessionId, runId });
  return { runId, isSame, answeringRunId, afterSeq: question?.afterSeq ?? 0, openActions: question?.actions ?? [] };
}
