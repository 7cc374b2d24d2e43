import type { Caller } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { parseCallId } from '../../domain/ids.ts';
import type { ConversationMessage } from '../../domain/transcript/conversation.ts';
import type { UserPart } from '../../domain/transcript/message.ts';
import type { OutputAnswer, RequiredAction } from '../../domain/transcript/required-action.ts';
import { subtractUsage, type Usage } from '../../domain/usage.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { Tx } from '../../store/db/database.ts';
import { usageOf } from '../../store/db/usage-columns.ts';
import { findSessionOfAnswer } from '../../store/session/conversations.ts';
import { findRun } from '../../store/session/runs.ts';
import { findSession, lockSession, type SessionRow } from '../../store/session/sessions.ts';
import { readUsageSince } from '../../store/transcript/events.ts';
import { findTakenOutputs } from '../../store/transcript/given-outputs.ts';
import { type AnsweredRun, answerCallsIn, readQuestion } from '../answer-calls.ts';
import { findChatSession } from '../chat-session.ts';

/** A client's results of calls, by the ids of the calls. */
export type ToolResults = ReadonlyMap<string, OutputAnswer>;

/** The results in new messages, by the ids of their calls. Of several for one call the last one counts. */
export function resultsOf(news: readonly ConversationMessage[]): ToolResults {
  return new Map(
    news.flatMap((message): [string, OutputAnswer][] => {
      if (message.role !== 'tool') return [];
      const { callId, text, parts } = message;
      return [
        [callId, parts === undefined ? { kind: 'output', output: text } : { kind: 'content', content: [...parts] }],
      ];
    }),
  );
}

/** The run that the results are for. It waits for some of them, or had all of them before. */
export type AskedCalls = Readonly<{
  runId: string;
  /** The event with which the run began to wait. */
  afterSeq: number;
  /** Required actions that are still open. */
  open: readonly RequiredAction[];
  usedBefore: Usage;
  /** The answers given now; null: the run had all of them before. */
  answered: AnsweredRun | null;
}>;

/** The session whose run asked for these results, found by the client's name for it or by the ids of the calls. */
export async function sessionOfCalls(
  { db }: HttpDeps,
  { tenantId, name, agentName }: Readonly<{ tenantId: string; name: string | undefined; agentName: string }>,
  results: ToolResults,
): Promise<SessionRow | null> {
  const session = await findNamed();
  return session === null || session.agent_name !== agentName ? null : session;

  async function findNamed(): Promise<SessionRow | null> {
    if (name !== undefined) return findChatSession(db, { tenantId, scope: 'openai', name });
    for (const callId of results.keys()) {
      const place = parseCallId(callId);
      const sessionId = place === null ? null : await findSessionOfAnswer(db, tenantId, place.messageId);
      if (sessionId !== null) return findSession(db, tenantId, sessionId);
    }
    return null;
  }
}

/**
 * Gives results to the run that waits for them. The same results again are not given twice: the request goes on where
 * the first one did. Null: no run of the session asked for any of them.
 * @param said the user's content in the same request
 * @throws BatonError `already_answered` (only with other results), `invalid_request`
 */
export async function giveResults(
  tx: Tx,
  caller: Caller,
  { id }: SessionRow,
  results: ToolResults,
  said: readonly UserPart[],
): Promise<AskedCalls | null> {
  const { tenantId } = caller;
  const session = await lockSession(tx, tenantId, id);
  const waiting = await readQuestion(tx, tenantId, session);
  if (waiting?.actions.some((action) => isGiven(action, results))) {
    const before = await findRun(tx, tenantId, waiting.runId);
    const answerTo = (action: RequiredAction) => (isGiven(action, results) ? (results.get(action.id) ?? null) : null);
    const answered = await answerCallsIn(tx, caller, session, answerTo, said);
    const open = waiting.actions.filter(({ id: callId }) => !results.has(callId));
    return { runId: waiting.runId, afterSeq: waiting.afterSeq, open, usedBefore: usageOf(before), answered };
  }
  return takenBefore(tx, caller.tenantId, id, results);
}

const isGiven = ({ id, kind }: RequiredAction, results: ToolResults): boolean => kind !== 'approval' && results.has(id);

async function takenBefore(
  tx: Tx,
  tenantId: string,
  sessionId: string,
  results: ToolResults,
): Promise<AskedCalls | null> {
  const calls = [...results].flatMap(([callId, given]) => {
    const place = parseCallId(callId);
    return place === null ? [] : [{ ...place, given }];
  });
  const taken = await findTakenOutputs(tx, { tenantId, sessionId }, calls);
  const [runId] = taken.map((each) => each.runId);
  if (runId === undefined) return null;
  if (taken.some(({ isSame }) => !isSame)) {
    throw new BatonError('already_answered', 'these calls have other results already');
  }
  const question = await readQuestion(tx, tenantId, { id: sessionId, active_run_id: runId });
  if (question === null) return null;
  const { afterSeq, actions: open } = question;
  const since = await readUsageSince(tx, tenantId, { sessionId, runId }, afterSeq);
  const usedBefore = subtractUsage(usageOf(await findRun(tx, tenantId, runId)), since);
  return { runId, afterSeq, open, usedBefore, answered: null };
}
