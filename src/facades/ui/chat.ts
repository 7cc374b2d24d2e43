import type { Context } from 'hono';
import { listChatMessagesRoute, resumeChatStreamRoute, sendChatRoute, stopChatRoute } from '../../api/chat.ts';
import { SDK_HEADER, type SdkVersionName } from '../../api/chat-body.ts';
import { cancelSession } from '../../commands/cancel.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../../http/http-env.ts';
import { untilGone, whyEnded } from '../../http/request-signal.ts';
import { framesResponse } from '../../http/sse.ts';
import type { Db } from '../../store/db/database.ts';
import { readQuestion } from '../../store/lists/open-question.ts';
import { findRun, readRunOutcomes } from '../../store/session/runs.ts';
import type { SessionRow } from '../../store/session/sessions.ts';
import { listWaiting } from '../../store/session/waiting-messages.ts';
import { listNewestMessages } from '../../store/transcript/messages.ts';
import { readCallAnswers } from '../../store/transcript/open-calls.ts';
import { readWritten } from '../../store/transcript/written-messages.ts';
import { findChatSession } from '../chat-session.ts';
import { followDeps } from '../follow-deps.ts';
import { nextTask } from '../next-task.ts';
import { answerChat } from './answer-chat.ts';
import { approvalsOf } from './approvals.ts';
import { type Frames, followActive, toTheirEnd } from './chat-frames.ts';
import { type SdkVersion, toSdkMessages, UNNAMED_SDK } from './sdk-versions.ts';
import { toUiMessages } from './transcript.ts';
import { toUiFrame, UI_STREAM_HEADERS } from './ui-frame.ts';

/** Long enough to be asked for rarely, and shorter than the time for which proxies let a request wait. */
const WAIT_FOR_NEXT_MS = 25_000;

const IDLE = { runId: null, status: 'idle' } as const;
/** Messages of a transcript in one answer. */
const SHOWN_MESSAGES = 1_000;

/** Routes for the AI SDK's `useChat`, which works with them unchanged. */
export function registerChatRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;
  const sessionOf = (c: Context<HttpEnv>, name: string) =>
    findChatSession(db, { tenantId: tenantOf(c), scope: 'ui', name });

  app.openapi(sendChatRoute, async (c) => {
    const agent = c.req.valid('query').agent ?? c.req.valid('header')['x-baton-agent'];
    const caller = c.get('caller');
    const request = { body: c.req.valid('json'), text: await c.req.text(), agent };
    const reader = { signal: untilGone(c), sdk: sdkOf(c.req.valid('header')) };
    return respond(c, deps, await answerChat(deps, caller, request, reader));
  });

  app.openapi(resumeChatStreamRoute, async (c) => {
    const session = await sessionOf(c, c.req.valid('param').id);
    if (session === null) return c.body(null, 204);
    const ref = { tenantId: tenantOf(c), sessionId: session.id };
    const { after } = c.req.valid('query');
    const gone = untilGone(c);
    const wait = (): AbortSignal => AbortSignal.any([gone, AbortSignal.timeout(WAIT_FOR_NEXT_MS)]);
    const runId =
      after === undefined
        ? await activeTask(db, ref, session.active_run_id)
        : await nextTask(followDeps(deps), { ...ref, runId: after }, wait());
    if (runId === null) return c.body(null, 204);
    const reader = { signal: gone, sdk: sdkOf(c.req.valid('header')) };
    return respond(c, deps, followActive(deps, { ...ref, runId }, reader));
  });

  app.openapi(listChatMessagesRoute, async (c) => {
    const session = await sessionOf(c, c.req.valid('param').id);
    const messages = session === null ? [] : await readUiMessages(db, tenantOf(c), session);
    const read = toSdkMessages(messages, sdkOf(c.req.valid('header')));
    return c.json({ messages: read.map((message) => ({ ...message })) }, 200);
  });

  app.openapi(stopChatRoute, async (c) => {
    const session = await sessionOf(c, c.req.valid('param').id);
    const namedStreamId = c.req.valid('json')?.activeStreamId ?? null;
    const active = session?.active_run_id ?? null;
    if (session === null || active === null) return c.json(IDLE, 200);
    if (namedStreamId !== null && namedStreamId !== formatId('run', active)) {
      throw new ProblemError('conflict', `${namedStreamId} is not at work`);
    }
    const outcome = await cancelSession(deps, { actor: c.get('caller'), sessionId: session.id });
    if (outcome === null) return c.json(IDLE, 200);
    return c.json({ runId: formatId('run', outcome.runId), status: outcome.status }, 200);
  });
}

/** The newest messages of a chat as a page shows them, with what waits and how each run ended. */
async function readUiMessages(db: Db, tenantId: string, session: SessionRow) {
  const [messages, waiting, question] = await Promise.all([
    listNewestMessages(db, tenantId, session.id, { limit: SHOWN_MESSAGES }),
    listWaiting(db, tenantId, session.id),
    readQuestion(db, tenantId, session),
  ]);
  const asked = question?.actions ?? [];
  const approvals = approvalsOf(asked);
  const runIds = new Set(messages.flatMap(({ runId }) => (runId === null ? [] : [runId])));
  const users = messages.flatMap(({ role, id }) => (role === 'user' ? [id] : []));
  const active = messages.flatMap(({ runId, id }) => (question !== null && runId === question.runId ? [id] : []));
  const [outcomes, written, answers] = await Promise.all([
    readRunOutcomes(db, tenantId, [...runIds]),
    readWritten(db, { tenantId, sessionId: session.id }, users),
    readCallAnswers(db, session.id, active),
  ]);
  const given = new Map(answers.map(({ messageId, index, given: answer }) => [formatCallId(messageId, index), answer]));
  return toUiMessages(messages, { waiting, approvals, asked, given, outcomes, written });
}

const sdkOf = (headers: Readonly<{ [SDK_HEADER]?: SdkVersionName | undefined }>): SdkVersion => {
  const named = headers[SDK_HEADER];
  return named === undefined ? UNNAMED_SDK : SDK_VERSIONS[named];
};

const SDK_VERSIONS = { 5: 5, 6: 6, 7: 7 } as const satisfies Record<SdkVersionName, SdkVersion>;

/** The id of the active run if it is a task run; else null. */
async function activeTask(db: Db, ref: Readonly<{ tenantId: string }>, runId: string | null): Promise<string | null> {
  return runId !== null && (await findRun(db, ref.tenantId, runId)).kind === 'task' ? runId : null;
}

function respond(c: Context<HttpEnv>, { metrics }: HttpDeps, frames: Frames): Response {
  const reader = metrics.http.readerJoined();
  const untilEnd = toTheirEnd(frames, () => whyEnded(c));
  const response = framesResponse(untilEnd, (frame) => (typeof frame === 'string' ? frame : toUiFrame(frame)), {
    // Aborts only with the client. If the server stops or the key is revoked, the frames end with an error, for which
    // the response stays open.
    signal: c.req.raw.signal,
    headers: UI_STREAM_HEADERS,
    onEnd: () => reader[Symbol.dispose](),
  });
  if (c.req.method !== 'HEAD') return response;
  void response.body?.cancel();
  return new Response(null, response);
}
