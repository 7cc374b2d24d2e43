import { readTurn, type TakenTurn } from '../../store/conversations.ts';
import { inTransaction, type Tx } from '../../store/database.ts';
import { acceptMessage } from '../../store/inbox.ts';
import type { SessionRow } from '../../store/sessions.ts';
import type { AnsweredRun } from '../answer-calls.ts';
import { type AskedCompletion, adapt, contentOf, type NotYetTaken, type TakenCompletion } from './asked-completion.ts';
import { judgeRepeated } from './known-conversation.ts';
import { goOn, remember } from './take-in-session.ts';
import { type AskedCalls, giveResults, type ToolResults } from './tool-results.ts';

/**
 * Gives results, and the user's message with them, to the run that waits for the results: all or nothing. A request
 * whose results the run already has gets the answer to them. Null: no run asked for any of them, or the message is new.
 * @param canWait as for `takeInSession`
 * @throws BatonError as `giveResults` and `acceptMessage`
 */
export function takeResults(
  asked: AskedCompletion,
  session: SessionRow,
  results: ToolResults,
  canWait: boolean,
): Promise<TakenCompletion | NotYetTaken | null> {
  return inTransaction(asked.deps.db, async (tx) => {
    const calls = await giveResults(tx, asked.caller, session, results, contentOf(asked.split.news) ?? []);
    if (calls === null) return null;
    return calls.answered === null
      ? takeAgain(tx, asked, session.id, calls, canWait)
      : takeAnswers(tx, asked, session.id, calls, calls.answered);
  });
}

async function takeAnswers(
  tx: Tx,
  asked: AskedCompletion,
  sessionId: string,
  { runId, afterSeq, open, usedBefore }: AskedCalls,
  answered: AnsweredRun,
): Promise<TakenCompletion> {
  const { deps, caller, split } = asked;
  await adapt(tx, asked, sessionId);
  const content = contentOf(split.news);
  const ids = { tenantId: caller.tenantId, sessionId, messageId: deps.newId(), runId: deps.newId() };
  const { quota, inboxLimits } = deps;
  const joined =
    content === null ? null : await acceptMessage(tx, { ...ids, content, delivery: 'steer', quota, inboxLimits });
  await remember(tx, asked, sessionId, { runId, messageId: null, afterSeq, usedBefore });
  const continued = { afterSeq, open };
  return { sessionId, runId, accepted: null, continued, usedBefore, answered, ...(joined !== null && { joined }) };
}

async function takeAgain(
  tx: Tx,
  asked: AskedCompletion,
  sessionId: string,
  { runId, afterSeq, open, usedBefore }: AskedCalls,
  canWait: boolean,
): Promise<TakenCompletion | NotYetTaken | null> {
  const turn = await readTurn(tx, sessionId);
  // A client that knows the ids of calls has asked before, so this is a retry even if it does not say so.
  const known = judge(turn, asked, canWait, asked.repetition.isRetry) ?? judge(turn, asked, canWait, true);
  if (known !== null) return goOn(tx, asked, known);
  if (contentOf(asked.split.news) !== null) return null;
  const isLast = turn?.turn.runId === runId && turn.turn.afterSeq === afterSeq;
  const before = isLast ? turn.turn.usedBefore : usedBefore;
  return { sessionId, runId, accepted: null, continued: { afterSeq, open }, usedBefore: before };
}

const judge = (turn: TakenTurn | null, { asked, repetition }: AskedCompletion, canWait: boolean, isRetry: boolean) =>
  judgeRepeated(turn, asked, { ...repetition, isRetry }, canWait);
