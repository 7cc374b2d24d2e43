import { createRoute, z } from '@hono/zod-openapi';
import { DELIVERIES } from '../domain/run/session.ts';
import { MAX_CONTENT_BODY_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { contentField } from './content-field.ts';
import { cursorField } from './cursor.ts';
import { idField, idParams, limitField, noQuery, pathId } from './fields.ts';
import { jsonBody } from './json-body.ts';
import {
  BODY_REFUSED,
  CONFLICT,
  jsonOf,
  NOT_FOUND,
  nextCursorBody,
  REFUSED,
  TOO_LARGE,
  timeBody,
} from './responses.ts';

const tags = ['queue'];

const itemParams = z.strictObject({
  id: pathId('session'),
  messageId: idField('message').openapi({ param: { name: 'messageId', in: 'path', required: true } }),
});

export const waitingBody = z
  .object({
    id: z.string(),
    position: z.int(),
    delivery: z.enum(DELIVERIES),
    content: z.array(z.unknown()),
    enqueuedAt: timeBody,
  })
  .openapi('WaitingMessage');

const queuePage = z.object({ messages: z.array(waitingBody), nextCursor: nextCursorBody }).openapi('QueuePage');

export const listQueueRoute = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/queue',
  operationId: 'listQueue',
  tags,
  summary: 'List the queued messages',
  description:
    'Includes messages that a failed or cancelled run left behind, which the next message or `resume` takes along. A page has fewer messages than its limit if they are large.',
  request: {
    params: idParams('session'),
    query: z.strictObject({ cursor: cursorField('queue'), limit: limitField }),
  },
  responses: {
    200: jsonOf(queuePage, 'Queued messages, in the order in which runs will handle them.'),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

export const getQueuedMessageRoute = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/queue/{messageId}',
  operationId: 'getQueuedMessage',
  tags,
  summary: 'Read a queued message',
  request: { params: itemParams, query: noQuery },
  responses: { 200: jsonOf(waitingBody, 'The message.'), ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});

export const changeQueuedMessageRoute = createRoute({
  method: 'patch',
  path: '/v1/sessions/{id}/queue/{messageId}',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'changeQueuedMessage',
  tags,
  summary: 'Change a queued message',
  description:
    'Changes the content, or whether the message joins the active run (`steer`) or waits for its end (`followup`).',
  request: {
    params: itemParams,
    query: noQuery,
    body: jsonBody(
      z
        .strictObject({ content: contentField.optional(), delivery: z.enum(['steer', 'followup']).optional() })
        .openapi('WaitingMessageChange', { example: { content: 'Only the Markdown files.', delivery: 'steer' } }),
    ),
  },
  responses: {
    200: jsonOf(waitingBody, 'The changed message.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

export const removeQueuedMessageRoute = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}/queue/{messageId}',
  operationId: 'removeQueuedMessage',
  tags,
  summary: 'Remove a queued message',
  request: { params: itemParams, query: noQuery },
  responses: { 204: { description: 'Removed.' }, ...REFUSED, ...TOO_LARGE, ...NOT_FOUND, ...CONFLICT },
});

export const clearQueueRoute = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}/queue',
  operationId: 'clearQueue',
  tags,
  summary: 'Remove all queued messages',
  request: { params: idParams('session'), query: noQuery },
  responses: {
    200: jsonOf(z.object({ removed: z.array(z.string()) }), 'Ids of the removed messages, in their order.'),
    ...REFUSED,
    ...TOO_LARGE,
    ...NOT_FOUND,
  },
});
