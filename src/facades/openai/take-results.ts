import { NO_USAGE } from '../../domain/usage.ts';
import { acceptMessage, findAccepted } from '../../store/changes/inbox.ts';
import { inTransaction, type Tx } from '../../store/db/database.ts';
import { replaceReader } from '../../store/session/conversations.ts';
import { findUnstoppedTask } from '../../store/session/runs.ts';
import { lockSession, type SessionRow } from '../../store/session/sessions.ts';
import type { AnsweredRun } from '../answer-calls.ts';
import { type AskedCompletion, adapt, contentOf, type TakenCompletion } from './asked-completion.ts';
import { remember, resume } from './take-in-session.ts';
import { type AskedCalls, giveResults, type ToolResults } from './tool-results.ts';

/**
 * Gives results, and the user's message with them, to the run that waits for the results: all or nothing. A request
 * whose results the run already has gets the answer to them. Null: no run asked for any of them, or the message is new.
 * @throws BatonError as `giveResults` and `acceptMessage`
 */
export function takeResults(
  asked: AskedCompletion,
  session: SessionRow,
  results: ToolResults,
): Promise<TakenCompletion | null> {
  return inTransaction(asked.deps.db, async (tx) => {
    const calls = await giveResults(tx, asked.caller, session, results, contentOf(asked.split.news) ?? []);
    if (calls === null) return null;
    return calls.answered === null
      ? takeAgain(tx, asked, session.id, calls)
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
  const { deps, caller, split, messageId } = asked;
  await adapt(tx, asked, sessionId);
  const content = contentOf(split.news);
  const ids = { tenantId: caller.tenantId, sessionId, messageId, runId: deps.newId() };
  const { quota, inboxLimits } = deps;
  const joined =
    content === null ? null : await acceptMessage(tx, { ...ids, content, delivery: 'steer', quota, inboxLimits });
  await remember(tx, asked, sessionId);
  const continued = { afterSeq, open };
  return { sessionId, runId, accepted: null, continued, usedBefore, answered, ...(joined !== null && { joined }) };
}

/** Reads the answer to results that were given before. If their run was stopped, the session resumes. */
async function takeAgain(
  tx: Tx,
  asked: AskedCompletion,
  sessionId: string,
  { runId, afterSeq, open, usedBefore }: AskedCalls,
): Promise<TakenCompletion | null> {
  const { tenantId } = asked.caller;
  if (contentOf(asked.split.news) !== null && !(await wasSaid(tx, asked, sessionId))) return null;
  const answeringId = await findUnstoppedTask(tx, { tenantId, sessionId, runId });
  if (answeringId === null) return resume(tx, asked, sessionId);
  await replaceReader(tx, sessionId, asked.readerId);
  if (answeringId === runId) return { sessionId, runId, accepted: null, continued: { afterSeq, open }, usedBefore };
  return { sessionId, runId: answeringId, accepted: null, continued: null, usedBefore: NO_USAGE };
}

/** Whether the message came with these results before. */
async function wasSaid(tx: Tx, { caller, asked, messageId }: AskedCompletion, sessionId: string): Promise<boolean> {
  const { tenantId } = caller;
  const { conversation_asked: last } = await lockSession(tx, tenantId, sessionId);
  if (last !== null && Buffer.compare(last, asked) === 0) return true;
  return (await findAccepted(tx, { tenantId, sessionId, messageId })) !== null;
}
