import { createRoute, z } from '@hono/zod-openapi';
import { MAX_CONTENT_BODY_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { noQuery, numberField, textField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { compactSchema, inputTokensSchema, responseRequestSchema } from './response-request.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, TOO_LARGE } from './responses.ts';

const tags = ['OpenAI'];

const responseBody = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
  model: z.string(),
  output: z.array(z.looseObject({ id: z.string(), type: z.enum(['message', 'function_call']) })),
  output_text: z.string(),
  error: z.looseObject({ code: z.string(), message: z.string(), baton: z.object({ code: z.string() }) }).nullable(),
  conversation: z.object({ id: z.string() }),
  usage: z.looseObject({ input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() }).nullable(),
});

const ok = (description: string) => ({
  200: {
    description,
    content: { 'application/json': { schema: responseBody }, 'text/event-stream': { schema: z.string() } },
  },
});
const params = z.strictObject({ id: textField(256).min(1) });

export const createResponseRoute = createRoute({
  method: 'post',
  path: '/v1/responses',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'createResponse',
  tags,
  summary: 'Create a response, as with OpenAI',
  description:
    '`model` is the name of an agent. With `conversation` (any name, or the id of a session), `previous_response_id` or items of earlier responses the request goes on with that session; without them it goes on with the one of this conversation. Going away cancels nothing.',
  request: {
    query: noQuery,
    headers: idempotencyHeader.extend({ 'x-stainless-retry-count': z.string().max(16).optional() }),
    body: {
      required: true,
      content: {
        'application/json': {
          schema: responseRequestSchema.openapi('ResponseRequest', {
            example: { model: 'workspace', input: 'Which files here mention shipping?' },
          }),
        },
      },
    },
  },
  responses: {
    ...ok('The response, or with `stream` its events. With `background` it has only begun.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

export const readResponseRoute = createRoute({
  method: 'get',
  path: '/v1/responses/{id}',
  operationId: 'getResponse',
  tags,
  summary: 'Read a response as it is now, or its events',
  request: {
    params,
    query: z.strictObject({
      stream: z.enum(['true', 'false']).optional(),
      starting_after: z
        .string()
        .regex(/^\d{1,15}$/, 'the number of an event')
        .optional()
        .openapi({ description: 'Only events after this `sequence_number`.' }),
      include_obfuscation: z.enum(['true', 'false']).optional(),
    }),
  },
  responses: { ...ok('The response, or with `stream=true` its events, at any age.'), ...REFUSED, ...NOT_FOUND },
});

export const cancelResponseRoute = createRoute({
  method: 'post',
  path: '/v1/responses/{id}/cancel',
  operationId: 'cancelResponse',
  tags,
  summary: 'Cancel a response',
  request: { params, query: noQuery },
  responses: { 200: jsonOf(responseBody, 'The response.'), ...REFUSED, ...TOO_LARGE, ...NOT_FOUND, ...CONFLICT },
});

const MAX_LISTED_ITEMS = 100;
/** As OpenAI's libraries send it. Nothing more is told of an item. */
const includeField = z.union([z.string(), z.array(z.string())]).optional();
const itemBody = z.looseObject({ id: z.string(), type: z.string() });

export const listInputItemsRoute = createRoute({
  method: 'get',
  path: '/v1/responses/{id}/input_items',
  operationId: 'listInputItems',
  tags,
  summary: 'List the items of which a response was made',
  description:
    'All items of the session up to the response, with the calls of the agent’s own tools. A request may refer to them by `item_reference`.',
  request: {
    params,
    query: z.strictObject({
      limit: numberField(1, MAX_LISTED_ITEMS, 'Items of a page; 20 by default.').optional(),
      order: z.enum(['asc', 'desc']).optional().openapi({ description: 'Default: `desc`, newest first.' }),
      after: textField(256).min(1).optional().openapi({ description: 'Id of the last item of the page before.' }),
      include: includeField,
      'include[]': includeField,
    }),
  },
  responses: {
    200: jsonOf(
      z.object({
        object: z.literal('list'),
        data: z.array(itemBody),
        first_id: z.string().nullable(),
        last_id: z.string().nullable(),
        has_more: z.boolean(),
      }),
      'A page of items.',
    ),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

export const countInputTokensRoute = createRoute({
  method: 'post',
  path: '/v1/responses/input_tokens',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'countInputTokens',
  tags,
  summary: 'Count the tokens that a response would begin with',
  description:
    'The instructions and tools of the agent and of the request, the conversation so far and the input, as Baton measures them. Nothing is stored and no model is asked.',
  request: {
    query: noQuery,
    body: {
      required: true,
      content: {
        'application/json': {
          schema: inputTokensSchema.openapi('InputTokensRequest', {
            example: { model: 'workspace', input: 'Which files here mention shipping?' },
          }),
        },
      },
    },
  },
  responses: {
    200: jsonOf(
      z.object({ object: z.literal('response.input_tokens'), input_tokens: z.int() }),
      'The number of tokens.',
    ),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

export const openResponsesRoute = createRoute({
  method: 'get',
  path: '/v1/responses',
  operationId: 'openResponses',
  tags,
  summary: 'Open a WebSocket for responses',
  description:
    'Each message is `{"type": "response.create", …}` with the fields of `POST /v1/responses`, and is answered by the events of its stream, one message each. A response is made after the other.',
  request: { query: noQuery },
  responses: { 101: { description: 'The connection is a WebSocket.' }, ...REFUSED },
});

export const compactResponseRoute = createRoute({
  method: 'post',
  path: '/v1/responses/compact',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'compactResponse',
  tags,
  summary: 'Compact a conversation into an item',
  description:
    'The conversation is compacted as a session of the agent would be. The item stands for all that came before it: a later request sends it in place of that. What it carries is not encrypted.',
  request: {
    query: noQuery,
    body: {
      required: true,
      content: {
        'application/json': {
          schema: compactSchema.openapi('CompactRequest', {
            example: {
              model: 'workspace',
              input: [
                { type: 'message', role: 'user', content: 'We launch on Tuesday.' },
                { type: 'message', role: 'assistant', content: 'Noted.' },
              ],
            },
          }),
        },
      },
    },
  },
  responses: {
    200: jsonOf(
      z.object({
        id: z.string(),
        object: z.literal('response.compaction'),
        created_at: z.int(),
        output: z.array(z.object({ id: z.string(), type: z.literal('compaction'), encrypted_content: z.string() })),
        usage: z.looseObject({ input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() }),
      }),
      'The compaction, whose output is one item.',
    ),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

export const deleteResponseRoute = createRoute({
  method: 'delete',
  path: '/v1/responses/{id}',
  operationId: 'deleteResponse',
  tags,
  summary: 'Delete a response with its session',
  description:
    'Refused with 409 while its run is active, or if its session has other messages: delete that session, or take the newest messages out with `revert`.',
  request: { params, query: noQuery },
  responses: {
    200: jsonOf(
      z.object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) }),
      'The response is deleted.',
    ),
    ...REFUSED,
    ...TOO_LARGE,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
