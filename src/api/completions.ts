import { createRoute, z } from '@hono/zod-openapi';
import { MAX_CONTENT_BODY_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { completionRequestSchema } from './completion-request.ts';
import { noQuery, textField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';

const tags = ['OpenAI'];

const toolCallBody = z.looseObject({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string().openapi({ description: 'Arguments as JSON.' }) }),
});

const choiceBody = z.looseObject({
  index: z.int(),
  message: z.looseObject({
    role: z.literal('assistant'),
    content: z.string().nullable(),
    tool_calls: z.array(toolCallBody).optional(),
  }),
  finish_reason: z.string().nullable(),
});

const completionBody = z.looseObject({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(choiceBody),
  usage: z.looseObject({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() }),
});

const failedBody = z.object({ error: z.looseObject({ message: z.string(), code: z.string().nullable() }) });
const failed = (description: string) => jsonOf(failedBody, `The run was begun, and has failed: ${description}`);
/** Responses of runs that failed, besides those of refused requests. */
const RUN_FAILED = {
  422: failed('there is no room for an answer, or a policy forbids it.'),
  502: failed('the model’s provider could not be reached or has refused.'),
  504: failed('the model’s provider has not answered in time.'),
} as const;

export const completeRoute = createRoute({
  method: 'post',
  path: '/v1/chat/completions',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'createChatCompletion',
  tags,
  summary: 'Complete a chat, as with OpenAI',
  description:
    '`model` is the name of an agent. Errors are problems that have OpenAI’s `error` in them. With `x-session-id` the session is the one of that name, without it the one of this conversation.',
  request: {
    query: noQuery,
    headers: idempotencyHeader.extend({
      'x-session-id': textField(256).min(1).optional().openapi({
        description: 'Name of the session as its client gives it; or a session, by its id or `key:` and its key.',
      }),
      'x-stainless-retry-count': z
        .string()
        .max(16)
        .optional()
        .openapi({ description: 'Number of the retry by the openai library. 0 for a first request.' }),
    }),
    body: {
      required: true,
      content: {
        'application/json': {
          schema: z.strictObject(completionRequestSchema.shape).openapi('Completion', {
            example: {
              model: 'workspace',
              messages: [{ role: 'user', content: 'Which files here mention shipping?' }],
            },
          }),
        },
      },
    },
  },
  responses: {
    200: {
      description: 'The completion, or with `stream` its chunks as server-sent events.',
      content: { 'application/json': { schema: completionBody }, 'text/event-stream': { schema: z.string() } },
    },
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
    ...RUN_FAILED,
  },
});

const modelBody = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.literal('baton'),
});

export const listModelsRoute = createRoute({
  method: 'get',
  path: '/v1/models',
  operationId: 'listModels',
  tags,
  summary: 'List the agents, as OpenAI lists models',
  request: { query: noQuery },
  responses: {
    200: jsonOf(z.object({ object: z.literal('list'), data: z.array(modelBody) }), 'The agents.'),
    ...REFUSED,
  },
});

export const getModelRoute = createRoute({
  method: 'get',
  path: '/v1/models/{model}',
  operationId: 'getModel',
  tags,
  summary: 'Read an agent, as OpenAI tells a model',
  request: { query: noQuery, params: z.object({ model: textField(256).min(1) }) },
  responses: { 200: jsonOf(modelBody, 'The agent.'), ...REFUSED, ...NOT_FOUND },
});
