import { createRoute, z } from '@hono/zod-openapi';
import { idField, idParams, noQuery } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { emptyBody, jsonBody } from './json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';

export const revertedBody = z
  .object({
    sessionId: z.string(),
    messageId: z.string().openapi({ description: 'The last message that stayed.' }),
    messages: z.int().openapi({ description: 'How many left the transcript, or came back, after it.' }),
  })
  .openapi('RevertedSession');

export const revertSessionRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/revert',
  operationId: 'revertSession',
  tags: ['sessions'],
  summary: 'Take what came after a message out of a session',
  description:
    'Transcript and view end with `toMessage` then, also where a compaction lay in between. Nothing is deleted: runs, usage and events stay, and `unrevert` undoes it. Effects of tools are not undone. Messages that wait still wait. Refused while a run is active.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(z.strictObject({ toMessage: idField('message') }).openapi('Revert')),
  },
  responses: {
    200: jsonOf(revertedBody, 'What has left; no message, where none came after it.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

export const unrevertSessionRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/unrevert',
  operationId: 'unrevertSession',
  tags: ['sessions'],
  summary: 'Undo the last revert of a session',
  description:
    'Several reverts are undone one by one, the newest first. Once a message has come after a revert, that one stays.',
  request: { params: idParams('session'), query: noQuery, headers: idempotencyHeader, body: emptyBody },
  responses: {
    200: jsonOf(revertedBody, 'What has come back.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
