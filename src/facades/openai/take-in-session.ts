import { BatonError } from '../../domain/errors.ts';
import { fromModelMessages } from '../../domain/model/from-model-messages.ts';
import type { Turn } from '../../domain/run/turn.ts';
import type { ConversationMessage } from '../../domain/transcript/conversation.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { auditInterrupt } from '../../http/middleware/audit-trail.ts';
import { addReader, importConversation, readTurn, storeTurn, type TakenTurn } from '../../store/conversations.ts';
import { inTransaction, type Tx } from '../../store/database.ts';
import { acceptMessage, findAccepted } from '../../store/inbox.ts';
import { readRequiredActions } from '../../store/open-calls.ts';
import { resumeSession } from '../../store/resume.ts';
import { findRun } from '../../store/runs.ts';
import { insertSession, lockSession, type SessionRow } from '../../store/sessions.ts';
import { readQuestion } from '../answer-calls.ts';
import { inChatSession, newChatSession } from '../chat-session.ts';
import { type AskedCompletion, adapt, contentOf, type NotYetTaken, type TakenCompletion } from './asked-completion.ts';
import { toModelMessages } from './completion-request.ts';
import { judgeRepeated, type KnownConversation, takeContinued, takeRepeated } from './known-conversation.ts';

const DAY_MS = 86_400_000;

/**
 * Takes a message in the session with that name, or in the session that knows the messages before it, or in a new one.
 * @param canWait whether to return `waitsFor` if the answer depends on a run that is about to end
 */
export async function takeInSession(asked: AskedCompletion, canWait: boolean): Promise<TakenCompletion | NotYetTaken> {
  return asked.sessionName === undefined ? takeUnnamed(asked, canWait) : takeNamed(asked, asked.sessionName, canWait);
}

async function takeUnnamed(asked: AskedCompletion, canWait: boolean): Promise<TakenCompletion | NotYetTaken> {
  const { deps, caller, body, signal } = asked;
  const going = await inTransaction(deps.db, (tx) => takeKnown(tx, asked, canWait));
  if (going !== null) return going;
  // Between the transactions, neither of which may wait for an MCP server.
  const fresh = await newChatSession(deps, caller.tenantId, { agentName: body.model, signal });
  return inTransaction(deps.db, async (tx) => {
    // Looks again: meanwhile a repetition may have begun the session, or the previous answer may have been completed.
    const known = await takeKnown(tx, asked, canWait);
    return known ?? begin(tx, asked, await insertSession(tx, { ...fresh, expiresAt: keptUntilOf(asked) }));
  });
}

/** Goes on in the session that knows the conversation. Null: no session does. */
async function takeKnown(tx: Tx, asked: AskedCompletion, canWait: boolean) {
  const { caller, body, repetition, split } = asked;
  const owner = { tenantId: caller.tenantId, agentName: body.model, owner: asked.owner };
  const known =
    (await takeRepeated(tx, owner, asked.asked, repetition, canWait)) ??
    (await takeContinued(tx, owner, split, canWait));
  return known === null ? null : goOn(tx, asked, known);
}

function takeNamed(asked: AskedCompletion, name: string, canWait: boolean): Promise<TakenCompletion | NotYetTaken> {
  const { deps, caller, body, signal, repetition, split } = asked;
  const { tenantId } = caller;
  const chosen = { agentName: body.model, signal };
  return inChatSession(deps, { tenantId, scope: 'openai', name }, chosen, async (tx, session, isNew) => {
    if (isNew) return begin(tx, asked, session);
    const locked = await lockSession(tx, tenantId, session.id);
    const known = judgeRepeated(await readTurn(tx, session.id), asked.asked, repetition, canWait);
    if (known !== null) return goOn(tx, asked, known);
    await refuseWhileAsked(tx, tenantId, locked);
    return say(tx, asked, session.id, split.news, 'followup');
  });
}

/**
 * Refuses a message while the run waits for this client's own results: it would wait behind that run for ever.
 * @throws ProblemError `conflict`
 */
async function refuseWhileAsked(tx: Tx, tenantId: string, session: Pick<SessionRow, 'id' | 'active_run_id'>) {
  const question = await readQuestion(tx, tenantId, session);
  const open = (question?.actions ?? []).flatMap(({ id, kind }) => (kind === 'output' ? [id] : []));
  if (open.length === 0) return;
  throw new ProblemError('conflict', `The run waits for the results of these calls first: ${open.join(', ')}`);
}

/** Goes on in a known session, which is locked. */
export async function goOn(
  tx: Tx,
  asked: AskedCompletion,
  known: KnownConversation,
): Promise<TakenCompletion | NotYetTaken> {
  switch (known.kind) {
    case 'wait':
      return { waitsFor: known.runId };
    case 'continue':
      return say(tx, asked, known.turn.sessionId, known.said, 'interrupt');
    case 'resume':
      return resume(tx, asked, known.turn.sessionId);
    case 'join':
      return join(tx, asked, known.turn);
  }
}

/** Imports the earlier messages into a new session and accepts the new ones. */
async function begin(tx: Tx, asked: AskedCompletion, session: SessionRow): Promise<TakenCompletion> {
  const { news, history } = asked.split;
  const earlier = [...history, ...news.filter(({ role }) => role === 'tool')];
  const { messages } = fromModelMessages(toModelMessages(earlier));
  const { tenantId } = asked.caller;
  if (messages.length > 0) {
    await importConversation(tx, { tenantId, id: session.id }, messages, contentOf(news) ?? []);
  }
  return say(tx, asked, session.id, news, 'followup');
}

/** @param delivery `interrupt` if the active run has no reader */
async function say(
  tx: Tx,
  asked: AskedCompletion,
  sessionId: string,
  said: readonly ConversationMessage[],
  delivery: 'followup' | 'interrupt',
): Promise<TakenCompletion> {
  const { deps, caller } = asked;
  const ids = { tenantId: caller.tenantId, sessionId, messageId: deps.newId(), runId: deps.newId() };
  await adapt(tx, asked, sessionId);
  const { quota, inboxLimits } = deps;
  const message = { ...ids, content: contentOf(said) ?? [], delivery, quota, inboxLimits };
  const accepted = await acceptMessage(tx, message);
  await auditInterrupt(tx, caller, accepted);
  const { runId, messageId } = accepted;
  await remember(tx, asked, sessionId, { runId, messageId, afterSeq: null, usedBefore: NO_USAGE });
  return { sessionId, runId, accepted, continued: null, usedBefore: NO_USAGE };
}

async function resume(tx: Tx, asked: AskedCompletion, sessionId: string): Promise<TakenCompletion> {
  const { deps, caller } = asked;
  await adapt(tx, asked, sessionId);
  const ids = { tenantId: caller.tenantId, sessionId, runId: deps.newId() };
  const resumed = await resumeSession(tx, { ...ids, limits: {}, quota: deps.quota });
  const { runId } = resumed;
  await remember(tx, asked, sessionId, { runId, messageId: null, afterSeq: null, usedBefore: NO_USAGE });
  return { sessionId, runId, accepted: null, continued: null, usedBefore: NO_USAGE, resumed };
}

/** Adds this request as a reader of the answer, which is streaming or complete. */
async function join(tx: Tx, asked: AskedCompletion, { sessionId, turn }: TakenTurn): Promise<TakenCompletion> {
  const { tenantId } = asked.caller;
  const { runId, messageId, afterSeq, usedBefore } = turn;
  await addReader(tx, sessionId, asked.readerId);
  if (messageId !== null) {
    const again = await findAccepted(tx, { tenantId, sessionId, messageId });
    if (again === null) throw new BatonError('conflict', 'this message was removed before it was taken up');
    return { sessionId, runId, accepted: again, continued: null, usedBefore };
  }
  const open = (await readRequiredActions(tx, [await findRun(tx, tenantId, runId)])).get(runId) ?? [];
  const continued = afterSeq === null ? null : { afterSeq, open };
  return { sessionId, runId, accepted: null, continued, usedBefore };
}

/** Stores the turn by which a repetition is recognized, with this request as a reader. */
export function remember(tx: Tx, asked: AskedCompletion, sessionId: string, turn: Omit<Turn, 'key'>): Promise<void> {
  const { repetition, readerId } = asked;
  const keptUntil = keptUntilOf(asked);
  return storeTurn(tx, sessionId, { asked: asked.asked, readerId, keptUntil, turn: { ...turn, key: repetition.key } });
}

/** When an unnamed session expires without further requests; null: never. */
function keptUntilOf({ deps, sessionName }: AskedCompletion): Date | null {
  const { completionKeptDays = 0 } = deps;
  if (sessionName !== undefined || completionKeptDays === 0) return null;
  return new Date(Date.now() + completionKeptDays * DAY_MS);
}
