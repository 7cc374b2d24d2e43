import { createRoute, z } from '@hono/zod-openapi';
import { idField, idParams, noQuery } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { emptyBody, jsonBody } from './json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';

export const revertedBody = z
  .object({
    sessionId: z.string(),
    messageId: z.string().openapi({ description: 'The last message that stayed.' }),
    messages: z
      .int()
      .openapi({ description: 'Number of messages that left the transcript, or came back, after `messageId`.' }),
  })
  .openapi('RevertedSession');

export const revertSessionRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/revert',
  operationId: 'revertSession',
  tags: ['sessions'],
  summary: 'Remove everything after a message from a session',
  description:
    'Transcript and view then end with `toMessage`, even if a compaction lay in between. Nothing is deleted: runs, usage and events stay, and `unrevert` undoes the revert. Effects of tools are not undone. Queued messages stay. Refused while a run is active.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(z.strictObject({ toMessage: idField('message') }).openapi('Revert')),
  },
  responses: {
    200: jsonOf(revertedBody, 'Removed messages. None if no message came after `toMessage`.'),
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
  description: 'Several reverts are undone one by one, the newest first. A revert that a message has followed stays.',
  request: { params: idParams('session'), query: noQuery, headers: idempotencyHeader, body: emptyBody },
  responses: {
    200: jsonOf(revertedBody, 'Restored messages.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
