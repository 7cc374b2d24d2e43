import { importedTranscript } from '../../domain/model/imported-transcript.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { lockKey } from '../../store/around/idempotency.ts';
import { acceptMessage, findAccepted } from '../../store/changes/inbox.ts';
import { resumeSession } from '../../store/changes/resume.ts';
import { inTransaction, type Tx } from '../../store/db/database.ts';
import {
  findSessionOfQueued,
  importConversation,
  replaceReader,
  storeQuestion,
  takeAsked,
  takeTold,
} from '../../store/session/conversations.ts';
import { insertSession, lockSession, type SessionRow } from '../../store/session/sessions.ts';
import { readQuestion } from '../answer-calls.ts';
import { inChatSession, newChatSession } from '../chat-session.ts';
import { type AskedCompletion, adapt, contentOf, type TakenCompletion } from './asked-completion.ts';
import { outputOf } from './completion-request.ts';
import { isOfClient } from './completion-writer.ts';
import { hashOf } from './conversation-hash.ts';

const DAY_MS = 86_400_000;

/** Takes a message in the session with that name, or in the session that knows the messages before it, or in a new one. */
export async function takeInSession(asked: AskedCompletion): Promise<TakenCompletion> {
  return asked.sessionName === undefined ? takeUnnamed(asked) : takeNamed(asked, asked.sessionName);
}

async function takeUnnamed(asked: AskedCompletion): Promise<TakenCompletion> {
  const { deps, caller, body, signal } = asked;
  const going = await inTransaction(deps.db, (tx) => takeKnown(tx, asked));
  if (going !== null) return going;
  // Between the transactions, neither of which may wait for an MCP server.
  const fresh = await newChatSession(deps, caller.tenantId, { agentName: body.model, signal });
  return inTransaction(deps.db, async (tx) => {
    // Looks again: meanwhile a repetition may have begun the session.
    const known = await takeKnown(tx, asked);
    return known ?? begin(tx, asked, await insertSession(tx, { ...fresh, expiresAt: keptUntilOf(asked) }));
  });
}

/** Goes on in the session that knows the conversation. Null: no session does. */
async function takeKnown(tx: Tx, asked: AskedCompletion): Promise<TakenCompletion | null> {
  const again = await findAgain(tx, asked);
  if (again !== null) return again;
  const { history, news } = asked.split;
  if (history.length === 0 || news.some(({ role }) => role === 'tool')) return null;
  const sessionId = await takeTold(tx, agentOf(asked), hashOf(asked.owner, history));
  return sessionId === null ? null : say(tx, asked, sessionId);
}

function takeNamed(asked: AskedCompletion, name: string): Promise<TakenCompletion> {
  const { deps, caller, body, signal } = asked;
  const { tenantId } = caller;
  const chosen = { agentName: body.model, signal };
  return inChatSession(deps, { tenantId, scope: 'openai', name }, chosen, async (tx, session, isNew) => {
    if (isNew) return begin(tx, asked, session);
    const again = await findAgain(tx, asked);
    if (again !== null) return again;
    await refuseWhileAsked(tx, tenantId, await lockSession(tx, tenantId, session.id));
    return say(tx, asked, session.id);
  });
}

const agentOf = ({ caller, body }: AskedCompletion) => ({ tenantId: caller.tenantId, agentName: body.model });

/** The question that this request repeats, by its key or because the library says so. Null: it repeats none. */
async function findAgain(tx: Tx, asked: AskedCompletion): Promise<TakenCompletion | null> {
  const { key, isRetry } = asked.repetition;
  if (key !== null) {
    // A request with the same key waits here until this one has stored its message.
    await lockKey(tx, `completion ${asked.messageId}`);
    const sessionId = await findSessionOfQueued(tx, asked.caller.tenantId, asked.messageId);
    return sessionId === null ? null : readAgain(tx, asked, { sessionId, messageId: asked.messageId });
  }
  const found = isRetry ? await takeAsked(tx, agentOf(asked), asked.asked) : null;
  return found === null ? null : readAgain(tx, asked, found);
}

/** Reads the answer to a message that was accepted before. If it is parked, the session resumes with it. */
async function readAgain(
  tx: Tx,
  asked: AskedCompletion,
  { sessionId, messageId }: Readonly<{ sessionId: string; messageId: string }>,
): Promise<TakenCompletion | null> {
  const accepted = await findAccepted(tx, { tenantId: asked.caller.tenantId, sessionId, messageId });
  if (accepted === null) return null;
  if (accepted.isParked === true) return { ...(await resume(tx, asked, sessionId)), accepted };
  await replaceReader(tx, sessionId, asked.readerId);
  return { sessionId, runId: accepted.runId, accepted, continued: null, usedBefore: NO_USAGE };
}

/**
 * Refuses a message while the run waits for this client's own results: it would wait behind that run for ever.
 * @throws ProblemError `conflict`
 */
async function refuseWhileAsked(tx: Tx, tenantId: string, session: Pick<SessionRow, 'id' | 'active_run_id'>) {
  const question = await readQuestion(tx, tenantId, session);
  const open = (question?.actions ?? []).flatMap((action) => (isOfClient(action) ? [action.id] : []));
  if (open.length === 0) return;
  throw new ProblemError('conflict', `The run waits for the results of these calls first: ${open.join(', ')}`);
}

/** Imports the earlier messages into a new session and accepts the new ones. */
async function begin(tx: Tx, asked: AskedCompletion, session: SessionRow): Promise<TakenCompletion> {
  const { news, history } = asked.split;
  const earlier = [...history, ...news.filter(({ role }) => role === 'tool')];
  const messages = importedTranscript(earlier);
  const { tenantId } = asked.caller;
  if (messages.length > 0) {
    await importConversation(tx, { tenantId, id: session.id }, messages, contentOf(news) ?? []);
  }
  return say(tx, asked, session.id);
}

async function say(tx: Tx, asked: AskedCompletion, sessionId: string): Promise<TakenCompletion> {
  const { deps, caller, messageId, split } = asked;
  await adapt(tx, asked, sessionId);
  const ids = { tenantId: caller.tenantId, sessionId, messageId, runId: deps.newId() };
  const { quota, inboxLimits } = deps;
  const content = contentOf(split.news) ?? [];
  const accepted = await acceptMessage(tx, {
    ...ids,
    content,
    output: outputOf(asked.body),
    delivery: 'followup',
    quota,
    inboxLimits,
  });
  await remember(tx, asked, sessionId);
  return { sessionId, runId: accepted.runId, accepted, continued: null, usedBefore: NO_USAGE };
}

/** Goes on with a session whose run was stopped. */
export async function resume(tx: Tx, asked: AskedCompletion, sessionId: string): Promise<TakenCompletion> {
  const { deps, caller } = asked;
  await adapt(tx, asked, sessionId);
  const ids = { tenantId: caller.tenantId, sessionId, runId: deps.newId() };
  const resumed = await resumeSession(tx, { ...ids, limits: {}, quota: deps.quota });
  await remember(tx, asked, sessionId);
  return { sessionId, runId: resumed.runId, accepted: null, continued: null, usedBefore: NO_USAGE, resumed };
}

/** Stores the question by which its answer is recognized, with this request as the reader. */
export function remember(tx: Tx, asked: AskedCompletion, sessionId: string): Promise<void> {
  return storeQuestion(tx, sessionId, { asked: asked.asked, readerId: asked.readerId, keptUntil: keptUntilOf(asked) });
}

/** When an unnamed session expires without further requests; null: never. */
function keptUntilOf({ deps, sessionName }: AskedCompletion): Date | null {
  const { completionKeptDays = 0 } = deps;
  if (sessionName !== undefined || completionKeptDays === 0) return null;
  return new Date(Date.now() + completionKeptDays * DAY_MS);
}
