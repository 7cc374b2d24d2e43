import { createRoute, z } from '@hono/zod-openapi';
import { MAX_CONTENT_BODY_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { noQuery, textField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { responseRequestSchema } from './response-request.ts';
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
