import type { z } from '@hono/zod-openapi';
import type { Caller } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { type ChatName, derivedId, findChatSession, inChatSession } from '../../facades/chat-session.ts';
import {
  answerIn,
  contentOf,
  conversationOf,
  type IncomingMessage,
  newMessageOf,
} from '../../facades/ui/chat-request.ts';
import type { UiFrame } from '../../facades/ui/chunk-writer.ts';
import { type AcceptedMessage, acceptMessage } from '../../store/inbox.ts';
import { resumeSession } from '../../store/resume.ts';
import type { SessionRow } from '../../store/sessions.ts';
import { answerCalls } from '../answer-calls.ts';
import { contentField, toParts } from '../content-field.ts';
import { dispatchJob } from '../dispatch.ts';
import type { HttpDeps } from '../http-deps.ts';
import { ProblemError } from '../problem.ts';
import type { chatBody } from '../routes/chat.ts';
import { tellAccepted } from '../tell-accepted.ts';
import { refuseInvalid } from '../validation.ts';
import { queuedFrames, runFrames } from './chat-frames.ts';

type ChatBody = z.infer<typeof chatBody>;
type Frames = AsyncIterable<UiFrame | string>;

/**
 * What a request of `useChat` is answered with: the answers in it go to the run that waits for them, its new message to the
 * session, and the stream is that of the run which goes on or begins.
 * @throws BatonError as `acceptMessage` and `inChatSession`; ProblemError `invalid_request`, `conflict` (nothing is new in it)
 */
export async function answerChat(
  deps: HttpDeps,
  caller: Caller,
  body: ChatBody,
  namedAgent: string | undefined,
  signal: AbortSignal,
): Promise<Frames> {
  const { tenantId } = caller;
  const chat: ChatName = { tenantId, scope: 'ui', name: body.id };
  const message = newMessageOf(body);
  const content = message === null ? null : validContent(message);
  const known = await findChatSession(deps.db, chat);
  const conversation = conversationOf(body);
  const continued =
    known === null ? null : await answerCalls(deps, caller, known, ({ id, kind }) => answerIn(conversation, id, kind));
  if (message === null || content === null) {
    if (known === null || continued === null)
      throw new ProblemError('conflict', 'There is nothing new in this request');
    const { runId, afterSeq, actions } = continued;
    const approvals = actions.filter(({ kind }) => kind !== 'output').map(({ id }) => id);
    return runFrames(deps, { tenantId, sessionId: known.id, runId }, signal, { afterSeq, approvals });
  }
  const agentName = body.agent ?? namedAgent;
  const isAgain = body.trigger === 'regenerate-message';
  if (known !== null && isAgain) {
    const runId = await goOn(deps, tenantId, known, body);
    if (runId !== null) return runFrames(deps, { tenantId, sessionId: known.id, runId }, signal);
  }
  const { sessionId, accepted } = await inChatSession(deps, chat, { agentName, signal }, async (tx, { id }) => {
    const messageId = isAgain ? deps.newId() : derivedId(id, message.id ?? deps.newId(), JSON.stringify(content));
    const ids = { tenantId, sessionId: id, messageId, runId: deps.newId() };
    const { delivery = 'followup', limits = {} } = body;
    const taken = await acceptMessage(tx, { ...ids, content: toParts(content), delivery, limits, quota: deps.quota });
    return { sessionId: id, accepted: taken };
  });
  await tellAccepted(deps, sessionId, accepted);
  return framesOf(deps, { tenantId, sessionId }, accepted, signal);
}

function framesOf(
  deps: HttpDeps,
  ref: Readonly<{ tenantId: string; sessionId: string }>,
  { messageId, runId, queued, position, eventSeq: afterSeq }: AcceptedMessage,
  signal: AbortSignal,
): Frames {
  if (!queued) return runFrames(deps, { ...ref, runId }, signal);
  return queuedFrames(deps, { ...ref, messageId, position, afterSeq }, signal);
}

/** The content of the new message, as any message has it. @throws ProblemError `invalid_request` */
function validContent(message: IncomingMessage): z.infer<typeof contentField> {
  if (message.role !== 'user') throw new ProblemError('invalid_request', 'Only messages of the user can be new');
  const parsed = contentField.safeParse(contentOf(message));
  refuseInvalid({ target: 'json', ...parsed });
  return parsed.data ?? [];
}

/** After a failure, a cancel or a limit: the same question is not asked again, the session goes on. Null: it was answered. */
async function goOn(
  deps: HttpDeps,
  tenantId: string,
  { id: sessionId }: SessionRow,
  { limits = {} }: ChatBody,
): Promise<string | null> {
  try {
    const request = { tenantId, sessionId, runId: deps.newId(), limits, quota: deps.quota };
    const resumed = await resumeSession(deps.db, request);
    deps.bus.announce(sessionId, resumed.eventSeq);
    if (resumed.job !== null) await dispatchJob(deps, resumed.job);
    return resumed.runId;
  } catch (error) {
    if (error instanceof BatonError && (error.code === 'conflict' || error.code === 'session_busy')) return null;
    throw error;
  }
}
