import { BatonError } from '../domain/errors.ts';
import { importedTranscript } from '../domain/model/imported-transcript.ts';
import type { OutputFormat } from '../domain/run/output-format.ts';
import type { ConversationMessage } from '../domain/transcript/conversation.ts';
import type { UserPart } from '../domain/transcript/message.ts';
import { planConversation, planUnknownConversation } from '../domain/transcript/plan-conversation.ts';
import type { RequiredAction } from '../domain/transcript/required-action.ts';
import { lockKey } from '../store/around/idempotency.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { adaptAgent, importConversation, storeAnswer, storeQuestion } from '../store/session/conversations.ts';
import type { LockedSession, NewSession } from '../store/session/sessions.ts';
import { afterAccepted, afterChanged } from './after-commit.ts';
import { type AnsweredRun, afterAnsweredRun, answerQuestionIn } from './answer-call.ts';
import type { Actor } from './audit.ts';
import { type ConversationSigns, inConversation, readFacts } from './conversation-facts.ts';
import { createSessionIn } from './create-session.ts';
import type { CommandPorts } from './ports.ts';
import { type ResumedSession, resumeSessionIn } from './resume-session.ts';
import { type SentMessage, sendMessageIn } from './send-message.ts';

/** A request whose client sends its whole conversation. */
export type ConversationRequest = Readonly<{
  actor: Actor;
  signs: ConversationSigns;
  /** The messages before the user's new one, as a new session imports them. */
  history: readonly ConversationMessage[];
  /** The user's new message. Null: the request brings results alone. */
  content: readonly UserPart[] | null;
  /** The results are those of all calls of the last message of the history. */
  answersCalls: boolean;
  output: OutputFormat | undefined;
  /** Expiry of a session that has one. Null: unchanged. */
  keptUntil: Date | null;
  /** Derives the session's agent for this request. */
  adapt: (base: unknown) => Promise<unknown>;
  /** A session for an unknown conversation, not yet stored. May wait for MCP servers. */
  newSession: () => Promise<NewSession>;
}>;

/** The place of an answer to results of calls: it begins after `afterSeq`. `openActions`: the run's other ones. */
type AnswerPlace = Readonly<{ afterSeq: number; openActions: readonly RequiredAction[] }>;

/** The place of the answer to a request. */
export type ContinuedConversation = Readonly<{
  sessionId: string;
  runId: string;
  /** The accepted message, perhaps of an earlier request. Null: only calls were answered, or a stopped run resumed. */
  accepted: SentMessage | null;
  answerPlace: AnswerPlace | null;
}>;

/** `joined`: a message that steers the run whose calls were answered. */
type Continued = ContinuedConversation &
  Readonly<{ answered?: AnsweredRun; joined?: SentMessage | null; resumed?: ResumedSession }>;

/**
 * Goes on with a conversation: results of calls go to the run that waits for them, a message to the conversation's
 * session. An unknown conversation is imported into a new session. A repeated request gets the answer to the first.
 *
 * Locks the key, then one session. Promises that results and message are stored together and once.
 * @throws BatonError `already_answered`, `conflict`; as `sendMessageIn`, `resumeSessionIn`, `answerQuestionIn` and
 * `createSessionIn`; errors of the request's `adapt` and `newSession`
 */
export async function continueConversation(
  ports: CommandPorts,
  request: ConversationRequest,
): Promise<ContinuedConversation> {
  const continuation = await inTransaction(ports.db, (tx) => continueKnown(tx, ports, request));
  const continued = continuation ?? (await beginUnknown(ports, request));
  await afterContinued(ports, continued);
  return continued;
}

/** Null: no session knows the conversation. */
async function continueKnown(tx: Tx, ports: CommandPorts, request: ConversationRequest): Promise<Continued | null> {
  const { signs } = request;
  // A request with the same key waits here until this one has stored its message.
  if (signs.hasKey) await lockKey(tx, `completion ${signs.messageId}`);
  return inConversation(tx, signs, (session) => carryOut({ tx, ports, session }, request));
}

async function beginUnknown(ports: CommandPorts, request: ConversationRequest): Promise<Continued> {
  const plan = planUnknownConversation(newsOf(request));
  if (plan.kind === 'refuse') throw new BatonError(plan.code, plan.message);
  // Between the transactions, neither of which may wait for an MCP server.
  const session = await request.newSession();
  const begin = () =>
    inTransaction(ports.db, async (tx) => {
      // Looks again: meanwhile a repetition may have begun the session.
      const continued = await continueKnown(tx, ports, request);
      return continued ?? importInto(tx, ports, request, session);
    });
  try {
    return await begin();
  } catch (error) {
    if (request.signs.sessionName === null || !(error instanceof BatonError) || error.code !== 'conflict') throw error;
    // Of two first requests with one name, the other one has created the session.
    return begin();
  }
}

const newsOf = ({ content, signs, answersCalls }: ConversationRequest) => ({
  hasMessage: content !== null,
  callIds: [...signs.results.keys()],
  answersCalls,
});

/** The message that starts a run after imported results. No model is sent an empty text. */
const NOTHING_SAID: readonly UserPart[] = [{ type: 'text', text: '' }];

/** A transaction that holds the lock of a session. */
type Locked<Session = LockedSession> = Readonly<{ tx: Tx; ports: CommandPorts; session: Session }>;

/** Null: the session is not that of the conversation. */
async function carryOut(locked: Locked, request: ConversationRequest): Promise<Continued | null> {
  const { tx, session } = locked;
  const plan = planConversation(newsOf(request), await readFacts(tx, session, request.signs));
  const place = { sessionId: session.id, accepted: null, answerPlace: null };
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
      return { ...place, runId: plan.message.runId, accepted: plan.message };
    case 'replay-results': {
      const { answeringRunId: runId, results } = plan;
      return { ...place, runId, answerPlace: runId === results.runId ? placeOf(results) : null };
    }
    case 'resume': {
      const resumed = await resume(locked, request);
      return { ...place, runId: resumed.runId, accepted: plan.message, resumed };
    }
  }
}

async function accept(
  { tx, ports, session }: Locked<Parameters<typeof adaptAgent>[1]>,
  { actor, signs, content, output, ...request }: ConversationRequest,
): Promise<Continued> {
  await adaptAgent(tx, session, request.adapt);
  const message = {
    actor,
    sessionId: session.id,
    messageId: signs.messageId,
    content: content ?? NOTHING_SAID,
    output,
  };
  const accepted = await sendMessageIn(tx, ports, { ...message, delivery: 'followup' });
  await storeQuestion(tx, session.id, { questionHash: signs.questionHash, keptUntil: request.keptUntil });
  return { sessionId: session.id, runId: accepted.runId, accepted, answerPlace: null };
}

async function importInto(
  tx: Tx,
  ports: CommandPorts,
  request: ConversationRequest,
  session: NewSession,
): Promise<Continued> {
  await createSessionIn(tx, ports, session);
  const messages = importedTranscript(request.history);
  if (messages.length > 0) await importConversation(tx, session, messages, request.content ?? []);
  const { id, agentSnapshot } = session;
  return accept({ tx, ports, session: { id, agent_base: null, agent_snapshot: agentSnapshot } }, request);
}

async function resume(
  { tx, ports, session }: Locked,
  { actor, signs, adapt, keptUntil }: ConversationRequest,
): Promise<ResumedSession> {
  await adaptAgent(tx, session, adapt);
  const resumed = await resumeSessionIn(tx, ports, { actor, sessionId: session.id });
  await storeQuestion(tx, session.id, { questionHash: signs.questionHash, keptUntil });
  return resumed;
}

async function answer(
  { tx, ports, session }: Locked,
  { actor, content, signs, adapt, keptUntil }: ConversationRequest,
  { callIds, openActions }: Readonly<{ callIds: readonly string[]; openActions: readonly RequiredAction[] }>,
): Promise<Continued> {
  const sessionId = session.id;
  const answerTo = ({ id }: RequiredAction) => (callIds.includes(id) ? (signs.results.get(id) ?? null) : null);
  const answered = await answerQuestionIn(tx, { actor, sessionId, answerTo, content: content ?? [] });
  if (answered === null) throw new Error('a run without a question has open actions');
  await adaptAgent(tx, session, adapt);
  const message = { actor, sessionId, messageId: signs.messageId, delivery: 'steer' } as const;
  const joined = content === null ? null : await sendMessageIn(tx, ports, { ...message, content });
  await storeQuestion(tx, sessionId, { questionHash: signs.questionHash, keptUntil });
  const answerPlace = placeOf({ ...answered, openActions });
  return { sessionId, runId: answered.runId, accepted: null, answerPlace, answered, joined };
}

const placeOf = ({ afterSeq, openActions }: AnswerPlace): AnswerPlace => ({ afterSeq, openActions });

async function afterContinued(
  ports: CommandPorts,
  { sessionId, answered, accepted, joined = null, resumed }: Continued,
): Promise<void> {
  if (answered !== undefined) await afterAnsweredRun(ports, answered);
  for (const message of [accepted, joined]) if (message !== null) await afterAccepted(ports, sessionId, message);
  if (resumed !== undefined) await afterChanged(ports, sessionId, resumed);
}

/**
 * Notes what the conversation is after an answer, so that the request which sends it again finds the session.
 *
 * Locks nothing. Promises that a later question keeps its own note.
 */
export const noteConversation = (
  { db }: Pick<CommandPorts, 'db'>,
  { actor, sessionId }: Readonly<{ actor: Actor; sessionId: string }>,
  hashes: Readonly<{ questionHash: Uint8Array; answerHash: Uint8Array }>,
): Promise<void> => storeAnswer(db, { tenantId: actor.tenantId, sessionId }, hashes);
