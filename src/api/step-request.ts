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
    messageId: z.string().openapi({ description: 'Of the answer.' }),
    agent: z.string(),
    model: z.string(),
    verified: z.boolean().nullable().openapi({
      description:
        'Whether these are, to the byte, the instructions and messages of which the worker kept the hash. False: the configuration of the model has changed since. Null: it kept none, because no answer came.',
    }),
    toolsVerified: z.boolean().nullable().openapi({ description: 'The same of the tools.' }),
    sha256: z.string().nullable(),
    tokens: tokens.openapi({ description: 'Of the whole request. Estimated.' }),
    byKind: z.object(Object.fromEntries(TOKEN_KINDS.map((kind) => [kind, tokens]))),
    tools: z.array(z.object({ name: z.string(), description: z.string(), inputSchema: jsonValueBody })),
    messages: z.array(
      z.object({
        no: z.int().openapi({ description: 'Its place in the request, from 1.' }),
        role: z.enum(['system', 'user', 'assistant', 'tool']),
        seqs: z.array(z.int()).openapi({ description: 'The messages of the transcript that it is made of.' }),
        tokens: tokens.openapi({ description: 'Estimated.' }),
        bytes: z.int().openapi({ description: 'Of `content` as JSON.' }),
        content: z.array(z.looseObject({ type: z.string() })),
        hidden: z.array(
          z.object({
            kind: z.enum(['pruned', 'cut', 'media']).openapi({
              description: 'A prune cleared it, its middle was left out, or its images and files were.',
            }),
            callId: z.string().nullable().openapi({ description: 'Null: a file of the user.' }),
            toolName: z.string().nullable(),
            messageId: z.string(),
            seq: z.int(),
            tokens: tokens.nullable().openapi({ description: 'Before that.' }),
            href: z.string().openapi({ description: 'Where it is read as it was.' }),
          }),
        ),
      }),
    ),
    next: z.int().nullable().openapi({ description: 'Pass it as `after`; null at the end.' }),
  })
  .openapi('StepRequest');

const MOST_STEPS = 2_147_000_000;

export const getStepRequestRoute = createRoute({
  method: 'get',
  path: '/v1/runs/{id}/steps/{no}/request',
  operationId: 'getStepRequest',
  tags: ['runs'],
  summary: 'What the model was shown in a step',
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
