import { createRoute, z } from '@hono/zod-openapi';
import { parseId } from '../domain/ids.ts';
import { RUN_STATUSES } from '../domain/run/run.ts';
import { MAX_CONTENT_BODY_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { agentField, chatBody, chatName, SDK_HEADER, sdkVersionField } from './chat-body.ts';
import { noQuery } from './fields.ts';
import { jsonBody, optionalJsonBody } from './json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, UNKNOWN_AGENT } from './responses.ts';

const tags = ['chat (AI SDK UI)'];

const chatParams = z.strictObject({
  id: chatName.openapi({ param: { name: 'id', in: 'path', required: true } }),
});

const sdkHeader = z.object({ [SDK_HEADER]: sdkVersionField });

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

export const sendChatRoute = createRoute({
  method: 'post',
  path: '/api/chat',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'sendChat',
  tags,
  summary: 'Send a message, or answer tool calls, as `useChat` does',
  description:
    'Takes the body of `DefaultChatTransport`, and of it only new messages and answers: the chat is a session of its own. A client that goes away cancels nothing.',
  request: {
    query: z.strictObject({ agent: agentField }),
    headers: z.object({ 'x-baton-agent': agentField, [SDK_HEADER]: sdkVersionField }),
    body: jsonBody(chatBody),
  },
  responses: { 200: stream, ...REFUSED, ...BODY_REFUSED, ...NOT_FOUND, ...CONFLICT, ...UNKNOWN_AGENT },
});

export const resumeChatStreamRoute = createRoute({
  method: 'get',
  path: '/api/chat/{id}/stream',
  operationId: 'resumeChatStream',
  tags,
  summary: 'Follow the answer that is being written, from its beginning',
  description:
    'With `after` the answer that comes after that one, whether it is being written or not: a page that is idle hears so ' +
    'what others ask. It is waited for up to 25 seconds; `HEAD` tells that it has begun, without its stream.',
  request: { params: chatParams, query: z.strictObject({ after: afterRunField }), headers: sdkHeader },
  responses: { 200: stream, 204: { description: 'No answer is being written.' }, ...REFUSED, ...NOT_FOUND },
});

export const listChatMessagesRoute = createRoute({
  method: 'get',
  path: '/api/chat/{id}/messages',
  operationId: 'listChatMessages',
  tags,
  summary: 'Read a chat as UI messages, for a page that is opened again',
  description:
    'Returns at most the newest 1000 messages of the transcript, and fewer if they are large. A chat without a message is an empty list.',
  request: { params: chatParams, query: noQuery, headers: sdkHeader },
  responses: {
    200: jsonOf(z.object({ messages: z.array(z.looseObject({})) }), 'The messages, oldest first.'),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

export const stopChatRoute = createRoute({
  method: 'post',
  path: '/api/chat/{id}/stop',
  operationId: 'stopChat',
  tags,
  summary: 'Cancel the answer that is being written',
  description: 'Queued messages stay. Nothing to stop is no error.',
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
      'Outcome for the run.',
    ),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
