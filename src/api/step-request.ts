import { createRoute, z } from '@hono/zod-openapi';
import { TOKEN_KINDS } from '../domain/context/meter/measure.ts';
import { afterField, idField, limitField, numberField } from './fields.ts';
import { jsonOf, jsonValueBody, NOT_FOUND, REFUSED } from './responses.ts';

const tokens = z.number().int();

export const stepRequestBody = z
  .object({
    runId: z.string(),
    sessionId: z.string(),
    step: z.int(),
    attempt: z.int(),
    messageId: z.string().openapi({ description: 'Id of the answer’s message.' }),
    agent: z.string(),
    model: z.string(),
    verified: z.boolean().nullable().openapi({
      description:
        'True: instructions and messages are, to the byte, those whose hash the worker kept. False: the configuration of the model has changed since. null: the worker kept no hash, because no answer came.',
    }),
    toolsVerified: z.boolean().nullable().openapi({
      description:
        'True: the tools are, to the byte, those whose hash the worker kept. False and null as for `verified`.',
    }),
    sha256: z.string().nullable(),
    tokens: tokens.openapi({ description: 'Estimated tokens of the whole request.' }),
    byKind: z.object(Object.fromEntries(TOKEN_KINDS.map((kind) => [kind, tokens]))),
    tools: z.array(z.object({ name: z.string(), description: z.string(), inputSchema: jsonValueBody })),
    messages: z.array(
      z.object({
        no: z.int().openapi({ description: 'Place of the message in the request, from 1.' }),
        role: z.enum(['system', 'user', 'assistant', 'tool']),
        seqs: z.array(z.int()).openapi({ description: 'Messages of the transcript from which this message was made.' }),
        tokens: tokens.openapi({ description: 'Estimated tokens of the message.' }),
        bytes: z.int().openapi({ description: 'Bytes of `content` as JSON.' }),
        content: z.array(z.looseObject({ type: z.string() })),
        hidden: z.array(
          z.object({
            kind: z.enum(['pruned', 'cut', 'media']).openapi({
              description:
                '`pruned`: a prune cleared the part. `cut`: its middle was left out. `media`: its images and files were left out.',
            }),
            callId: z
              .string()
              .nullable()
              .openapi({ description: 'Id of the tool call. null: the part is a file of the user.' }),
            toolName: z.string().nullable(),
            messageId: z.string(),
            seq: z.int(),
            tokens: tokens.nullable().openapi({ description: 'Tokens before the part was shortened.' }),
            href: z.string().openapi({ description: 'Path of the whole part.' }),
          }),
        ),
      }),
    ),
    next: z.int().nullable().openapi({ description: 'Value to pass as `after` for the next page. null at the end.' }),
  })
  .openapi('StepRequest');

const MOST_STEPS = 2_147_000_000;

export const getStepRequestRoute = createRoute({
  method: 'get',
  path: '/v1/runs/{id}/steps/{no}/request',
  operationId: 'getStepRequest',
  tags: ['runs'],
  summary: 'Read the request of a step, as the model saw it',
  description:
    'Instructions, tools and messages, recomputed from the transcript as it was when the step began: `verified` says whether they have ' +
    'the hash that the worker kept. The key needs the scope `admin`. A page has fewer messages than its limit where they are large.',
  request: {
    params: z.strictObject({
      id: idField('run').openapi({ param: { name: 'id', in: 'path', required: true } }),
      no: numberField(1, MOST_STEPS, 'The number of the step.').openapi({
        param: { name: 'no', in: 'path', required: true },
      }),
    }),
    query: z.strictObject({
      attempt: numberField(1, MOST_STEPS, 'The newest by default.').optional(),
      after: afterField,
      limit: limitField,
    }),
  },
  responses: { 200: jsonOf(stepRequestBody, 'A page of the request.'), ...REFUSED, ...NOT_FOUND },
});
