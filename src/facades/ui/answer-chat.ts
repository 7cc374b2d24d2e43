import type { z } from '@hono/zod-openapi';
import type { chatBody, IncomingMessage } from '../../api/chat-body.ts';
import { contentField, toParts } from '../../api/content-field.ts';
import { afterAccepted, afterChanged } from '../../commands/after-commit.ts';
import { type AnsweredRun, afterAnsweredRun } from '../../commands/answer-call.ts';
import { type ResumedSession, resumeSessionIn } from '../../commands/resume-session.ts';
import { type SentMessage, sendMessageIn } from '../../commands/send-message.ts';
import type { Caller } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { parseId } from '../../domain/ids.ts';
import type { UserPart } from '../../domain/transcript/message.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { refuseInvalid } from '../../http/bodies/validation.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { refuseOtherChat } from '../../http/middleware/token-caller.ts';
import { derivedId } from '../../platform/derived-id.ts';
import { inTransaction, type Tx } from '../../store/db/database.ts';
import { type OpenQuestion, readQuestion } from '../../store/lists/open-question.ts';
import { findRun } from '../../store/session/runs.ts';
import { findSession, type SessionRow } from '../../store/session/sessions.ts';
import { answerCallsIn } from '../answer-calls.ts';
import { type ChatName, findChatSession, inChatSession } from '../chat-session.ts';
import { approvalsOf } from './approvals.ts';
import { type FrameReader, type Frames, queuedFrames, runFrames } from './chat-frames.ts';
import { answerIn, contentOf, conversationOf, newMessageOf, writtenConversation } from './chat-request.ts';

type ChatBody = z.infer<typeof chatBody>;
/** The request as it was validated and as it was written, and the agent that it names beside its body. */
type UiRequest = Readonly<{ body: ChatBody; text: string; agent: string | undefined }>;

/**
 * Answers a request of `useChat`: the answers in it go to the run that waits for them, its new message to the session.
 * The stream is that of the run which goes on or begins; a refused request changes nothing.
 * @throws BatonError as `sendMessageIn` and `inChatSession`; ProblemError `invalid_request`, `conflict` (the request
 * has nothing new)
 */
export async function answerChat(
  deps: HttpDeps,
  caller: Caller,
  { body, text, agent: namedAgent }: UiRequest,
  reader: FrameReader,
): Promise<Frames> {
  await refuseOtherChat(deps.db, caller, body.id);
  const request: ChatRequest = { deps, caller, body, text, reader };
  const message = newMessageOf(body);
  const known = await findChatSession(deps.db, chatOf(request));
  const content = message === null ? null : validContent(message);
  if (message === null || content === null) return continueRun(request, known);
  if (known !== null && body.trigger === 'regenerate-message') {
    const frames = await goOn(request, known);
    if (frames !== null) return frames;
  }
  const chosen = { agentName: body.agent ?? namedAgent, signal: reader.signal };
  const done = await inChatSession(deps, chatOf(request), chosen, async (tx, session) => {
    const answered = await answerQuestion(tx, request, session, toParts(content));
    const accepted = await acceptNew(tx, request, { sessionId: session.id, message, content });
    const resumed = await resumeParked(tx, request, session, accepted);
    return { sessionId: session.id, answered, accepted, resumed };
  });
  const { sessionId, answered, accepted, resumed } = done;
  await afterAnsweredRun(deps, answered);
  await afterAccepted(deps, sessionId, accepted);
  if (resumed !== null) await afterChanged(deps, sessionId, resumed);
  const ref = { tenantId: caller.tenantId, sessionId };
  if (resumed !== null) return runFrames(deps, { ...ref, runId: resumed.runId }, reader);
  return framesOf(deps, ref, accepted, reader);
}

type ChatRequest = Readonly<{ deps: HttpDeps; caller: Caller; body: ChatBody; text: string; reader: FrameReader }>;
type Content = z.infer<typeof contentField>;

const chatOf = ({ caller, body }: ChatRequest): ChatName => ({
  tenantId: caller.tenantId,
  scope: 'ui',
  name: body.id,
});

/** Gives the waiting run the answers to its calls that the conversation holds. */
function answerQuestion(
  tx: Tx,
  { caller, text }: ChatRequest,
  session: SessionRow,
  said: readonly UserPart[] = [],
): Promise<AnsweredRun | null> {
  let conversation: readonly IncomingMessage[] | undefined;
  const answerTo: Parameters<typeof answerCallsIn>[3]['answerTo'] = (action) => {
    // Read only where a run waits: a conversation may be long.
    conversation ??= writtenConversation(text);
    return answerIn(conversation, action, approvalsOf([action]));
  };
  return answerCallsIn(tx, caller, session, { answerTo, content: said });
}

function acceptNew(
  tx: Tx,
  { deps, caller: actor, body }: ChatRequest,
  { sessionId, message, content }: Readonly<{ sessionId: string; message: IncomingMessage; content: Content }>,
): Promise<SentMessage> {
  const { delivery = 'followup', limits, trigger } = body;
  const messageId =
    trigger === 'regenerate-message'
      ? deps.newId()
      : derivedId(sessionId, message.id ?? deps.newId(), JSON.stringify(content));
  return sendMessageIn(tx, deps, { actor, sessionId, messageId, content: toParts(content), delivery, limits });
}

/** Resumes the session for a repeated message that is parked after a failure or a cancel: no run would take it up. */
async function resumeParked(
  tx: Tx,
  { deps, caller: actor, body: { limits } }: ChatRequest,
  { id: sessionId }: SessionRow,
  { isParked }: SentMessage,
): Promise<ResumedSession | null> {
  if (isParked !== true) return null;
  return resumeSessionIn(tx, deps, { actor, sessionId, limits }).catch(unlessNothingToResume);
}

/**
 * Follows the run whose calls the request answers, also if another page has answered them and the run has ended since.
 * @throws ProblemError `conflict`
 */
async function continueRun(request: ChatRequest, session: SessionRow | null): Promise<Frames> {
  const { deps, caller, reader } = request;
  const answered = session === null ? null : await inTransaction(deps.db, (tx) => answerQuestion(tx, request, session));
  const continued = answered ?? (session === null ? null : await readAnsweredRun(request, session));
  if (session === null || continued === null) {
    throw new ProblemError('conflict', 'There is nothing new in this request');
  }
  await afterAnsweredRun(deps, answered);
  const { runId, afterSeq, actions } = continued;
  const ref = { tenantId: caller.tenantId, sessionId: session.id, runId };
  return runFrames(deps, ref, reader, { afterSeq, approvals: approvalsOf(actions) });
}

/** The run of the newest answer in the request, if it has ever waited for answers. */
async function readAnsweredRun({ deps, caller, body }: ChatRequest, session: SessionRow): Promise<OpenQuestion | null> {
  const runId = parseId('run', conversationOf(body).at(-1)?.id ?? '');
  if (runId === null) return null;
  return readQuestion(deps.db, caller.tenantId, { id: session.id, active_run_id: runId }).catch(unlessUnknown);
}

function unlessUnknown(error: unknown): null {
  if (error instanceof BatonError && error.code === 'not_found') return null;
  throw error;
}

function framesOf(
  deps: HttpDeps,
  ref: Readonly<{ tenantId: string; sessionId: string }>,
  { messageId, runId, queued, position, eventSeq: afterSeq }: SentMessage,
  reader: FrameReader,
): Frames {
  if (!queued) return runFrames(deps, { ...ref, runId }, reader);
  return queuedFrames(deps, { ...ref, messageId, position, afterSeq }, reader);
}

/** The validated content of the new message. @throws ProblemError `invalid_request` */
function validContent(message: IncomingMessage): z.infer<typeof contentField> {
  if (message.role !== 'user') throw new ProblemError('invalid_request', 'Only messages of the user can be new');
  const parsed = contentField.safeParse(contentOf(message));
  refuseInvalid({ target: 'json', ...parsed });
  return parsed.data ?? [];
}

/**
 * Regenerates: after a failure, a cancel or a limit the session is resumed instead of the question asked again. An
 * active run is joined, unless the request's `delivery` is `interrupt` or `reject`. Null: the question was answered.
 */
async function goOn(request: ChatRequest, session: SessionRow): Promise<Frames | null> {
  const { deps, caller, body, reader } = request;
  const { tenantId } = caller;
  const { id: sessionId } = session;
  const ref = { tenantId, sessionId };
  const resuming = { actor: caller, sessionId, limits: body.limits };
  const joinsRun = body.delivery !== 'interrupt' && body.delivery !== 'reject';
  const { answered, resumed, runId } = await inTransaction(deps.db, async (tx) => {
    // Otherwise the answers are given with the message, or not at all.
    const answered = joinsRun ? await answerQuestion(tx, request, session) : null;
    const started = await resumeSessionIn(tx, deps, resuming).catch(unlessNothingToResume);
    const active = (await findSession(tx, tenantId, sessionId)).active_run_id;
    return { answered, resumed: started, runId: started?.runId ?? (await taskOf(tx, tenantId, active)) };
  });
  await afterAnsweredRun(deps, answered);
  if (resumed !== null) {
    await afterChanged(deps, sessionId, resumed);
  } else if (!joinsRun) return null;
  return runId === null ? null : runFrames(deps, { ...ref, runId }, reader);
}

/** The run if it is a task run; null: it is none. */
async function taskOf(tx: Tx, tenantId: string, runId: string | null): Promise<string | null> {
  return runId !== null && (await findRun(tx, tenantId, runId)).kind === 'task' ? runId : null;
}

/** The session is busy, or its last run is complete: nothing was written. */
function unlessNothingToResume(error: unknown): null {
  if (error instanceof BatonError && (error.code === 'conflict' || error.code === 'session_busy')) return null;
  throw error;
}
