import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { afterCancelled } from '../../commands/after-commit.ts';
import { formatId, parseId } from '../../domain/ids.ts';
import { RUN_STATUSES } from '../../domain/run/run.ts';
import { MAX_CONTENT_BODY_BYTES } from '../../domain/tunables.ts';
import { noQuery } from '../../http/bodies/fields.ts';
import { jsonBody, optionalJsonBody } from '../../http/bodies/json-body.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, UNKNOWN_AGENT } from '../../http/bodies/responses.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../../http/http-env.ts';
import { auditStop } from '../../http/middleware/audit-trail.ts';
import { limitBody } from '../../http/middleware/body-limit.ts';
import { untilGone, whyEnded } from '../../http/request-signal.ts';
import { framesResponse } from '../../http/sse.ts';
import { requestSessionCancel } from '../../store/changes/cancels.ts';
import { type Db, inTransaction } from '../../store/db/database.ts';
import { findRun, readRunOutcomes } from '../../store/session/runs.ts';
import { listWaiting } from '../../store/session/waiting-messages.ts';
import { listNewestMessages } from '../../store/transcript/messages.ts';
import { readWritten } from '../../store/transcript/written-messages.ts';
import { readQuestion } from '../answer-calls.ts';
import { findChatSession } from '../chat-session.ts';
import { followDeps } from '../follow-deps.ts';
import { nextTask } from '../next-task.ts';
import { answerChat } from './answer-chat.ts';
import { approvalsOf } from './approvals.ts';
import { agentField, chatBody, chatName } from './chat-body.ts';
import { type Frames, followActive, toTheirEnd } from './chat-frames.ts';
import { toUiFrame, UI_STREAM_HEADERS } from './chunk-writer.ts';
import { toUiMessages } from './transcript.ts';

const tags = ['chat (AI SDK UI)'];

const chatParams = z.strictObject({
  id: chatName.openapi({
    param: { name: 'id', in: 'path', required: true },
    description: 'What the client calls the chat, or the id of a session.',
  }),
});
/** Long enough to be asked for rarely, and shorter than the time for which proxies let a request wait. */
const WAIT_FOR_NEXT_MS = 25_000;

const afterRunField = z
  .string()
  .transform((text, ctx): string | null => {
    const runId = parseId('run', text);
    if (runId !== null || text === 'start') return runId;
    ctx.addIssue({ code: 'custom', message: 'the id of an answer (run_ and 32 lower-case hex digits), or start' });
    return z.NEVER;
  })
  .optional()
  .openapi({ type: 'string', description: 'The newest answer that the page has (`run_…`), or `start`.' });

const stream = {
  description: 'A UI message stream (v1): chunks as server-sent events, `data: [DONE]` at its end.',
  content: { 'text/event-stream': { schema: z.string() } },
};

const post = createRoute({
  method: 'post',
  path: '/api/chat',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'sendChat',
  tags,
  summary: 'Send a message, or answer tool calls, as `useChat` does',
  description:
    'Body as `DefaultChatTransport` sends it. Only what is new in it is taken: the chat is a session of its own. A client that goes away cancels nothing.',
  request: {
    query: z.strictObject({ agent: agentField }),
    headers: z.object({ 'x-baton-agent': agentField }),
    body: jsonBody(chatBody),
  },
  responses: { 200: stream, ...REFUSED, ...BODY_REFUSED, ...NOT_FOUND, ...CONFLICT, ...UNKNOWN_AGENT },
});

const reconnect = createRoute({
  method: 'get',
  path: '/api/chat/{id}/stream',
  operationId: 'resumeChatStream',
  tags,
  summary: 'Follow the answer that is being written, from its beginning',
  description:
    'With `after` the answer that comes after that one, whether it is being written or not: a page that is idle hears so ' +
    'what others ask. It is waited for up to 25 seconds; `HEAD` tells that it has begun, without its stream.',
  request: { params: chatParams, query: z.strictObject({ after: afterRunField }) },
  responses: { 200: stream, 204: { description: 'Nothing is being written.' }, ...REFUSED, ...NOT_FOUND },
});

const transcript = createRoute({
  method: 'get',
  path: '/api/chat/{id}/messages',
  operationId: 'listChatMessages',
  tags,
  summary: 'Read a chat as UI messages, for a page that is opened again',
  description:
    'At most the newest 1000 messages of the transcript, and fewer where they are large. A chat without a message is an empty list.',
  request: { params: chatParams, query: noQuery },
  responses: {
    200: jsonOf(z.object({ messages: z.array(z.looseObject({})) }), 'The messages, oldest first.'),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

const stop = createRoute({
  method: 'post',
  path: '/api/chat/{id}/stop',
  operationId: 'stopChat',
  tags,
  summary: 'Cancel what is being answered',
  description: 'Messages that wait stay in the queue. Nothing to stop is no error.',
  request: {
    params: chatParams,
    query: noQuery,
    body: optionalJsonBody(
      z
        .looseObject({ activeStreamId: z.string().nullish() })
        .openapi({ description: '`activeStreamId`: the run that is meant; another one is left alone.' }),
    ),
  },
  responses: {
    200: jsonOf(
      z.object({ runId: z.string().nullable(), status: z.enum([...RUN_STATUSES, 'idle']) }),
      'What became of the run.',
    ),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

const IDLE = { runId: null, status: 'idle' } as const;
/** Messages of a transcript in one answer. */
const SHOWN_MESSAGES = 1_000;

/** Routes for the AI SDK's `useChat`, which works with them unchanged. */
export function registerChatRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;
  const sessionOf = (c: Context<HttpEnv>, name: string) =>
    findChatSession(db, { tenantId: tenantOf(c), scope: 'ui', name });

  app.openapi(post, async (c) => {
    const agent = c.req.valid('query').agent ?? c.req.valid('header')['x-baton-agent'];
    const caller = c.get('caller');
    const asked = { body: c.req.valid('json'), text: await c.req.text(), agent };
    return respond(c, deps, await answerChat(deps, caller, asked, untilGone(c)));
  });

  app.openapi(reconnect, async (c) => {
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
    return runId === null ? c.body(null, 204) : respond(c, deps, followActive(deps, { ...ref, runId }, gone));
  });

  app.openapi(transcript, async (c) => {
    const session = await sessionOf(c, c.req.valid('param').id);
    if (session === null) return c.json({ messages: [] }, 200);
    const tenantId = tenantOf(c);
    const [messages, waiting, question] = await Promise.all([
      listNewestMessages(db, tenantId, session.id, SHOWN_MESSAGES),
      listWaiting(db, tenantId, session.id),
      readQuestion(db, tenantId, session),
    ]);
    const asked = question?.actions ?? [];
    const approvals = approvalsOf(asked);
    const runIds = new Set(messages.flatMap(({ runId }) => (runId === null ? [] : [runId])));
    const users = messages.flatMap(({ role, id }) => (role === 'user' ? [id] : []));
    const [outcomes, written] = await Promise.all([
      readRunOutcomes(db, tenantId, [...runIds]),
      readWritten(db, { tenantId, sessionId: session.id }, users),
    ]);
    const shown = toUiMessages(messages, { waiting, approvals, asked, outcomes, written });
    return c.json({ messages: shown.map((message) => ({ ...message })) }, 200);
  });

  app.openapi(stop, async (c) => {
    const session = await sessionOf(c, c.req.valid('param').id);
    const meant = c.req.valid('json')?.activeStreamId ?? null;
    const active = session?.active_run_id ?? null;
    if (session === null || active === null) return c.json(IDLE, 200);
    if (meant !== null && meant !== formatId('run', active)) {
      throw new ProblemError('conflict', `${meant} is not at work`);
    }
    const { outcome, eventSeq } = await inTransaction(db, async (tx) => {
      const requested = await requestSessionCancel(tx, tenantOf(c), session.id);
      if (requested.outcome !== null) await auditStop(tx, c.get('caller'), session.id);
      return requested;
    });
    deps.bus.announce(session.id, eventSeq);
    if (outcome === null) return c.json(IDLE, 200);
    await afterCancelled(deps, outcome);
    return c.json({ runId: formatId('run', outcome.runId), status: outcome.status }, 200);
  });
}

/** The id of the active run if it is a task run; else null. */
async function activeTask(db: Db, ref: Readonly<{ tenantId: string }>, runId: string | null): Promise<string | null> {
  return runId !== null && (await findRun(db, ref.tenantId, runId)).kind === 'task' ? runId : null;
}

function respond(c: Context<HttpEnv>, { metrics }: HttpDeps, frames: Frames): Response {
  const reader = metrics.http.readerJoined();
  const told = toTheirEnd(frames, () => whyEnded(c));
  const response = framesResponse(told, (frame) => (typeof frame === 'string' ? frame : toUiFrame(frame)), {
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
