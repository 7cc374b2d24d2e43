import { createRoute, z } from '@hono/zod-openapi';
import { TOKEN_KINDS } from '../domain/context/meter/measure.ts';
import { afterField, idParams, limitField } from './fields.ts';
import { jsonOf, NOT_FOUND, REFUSED } from './responses.ts';

const tokens = z.number().int();

export const viewBody = z
  .object({
    model: z.string(),
    version: z.int().openapi({
      description: 'Changes with a compaction or a prune: pages of two versions are not of one view.',
    }),
    tokens: tokens.openapi({ description: 'Tokens of the whole request, as in `/context`.' }),
    byKind: z.object(Object.fromEntries(TOKEN_KINDS.map((kind) => [kind, tokens]))),
    tools: z.array(z.string()).openapi({ description: 'Names of the tools that the request offers.' }),
    messages: z.array(
      z.object({
        no: z.int().openapi({ description: 'Place of the message in the request, from 1.' }),
        role: z.enum(['system', 'user', 'assistant', 'tool']),
        seqs: z.array(z.int()).openapi({ description: 'Messages of the transcript from which this message was made.' }),
        tokens: tokens.openapi({ description: 'Estimated tokens. Files of results count with the results.' }),
        bytes: z.int().openapi({ description: 'Bytes of `content` as JSON.' }),
        content: z.array(z.looseObject({ type: z.string() })).openapi({
          description: 'Parts as the model reads them. A file has its `url` in place of its bytes.',
        }),
      }),
    ),
    next: z.int().nullable().openapi({ description: 'Value to pass as `after` for the next page. null at the end.' }),
  })
  .openapi('View');

export const getViewRoute = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/view',
  operationId: 'getView',
  tags: ['context'],
  summary: 'Read the next request, as the model would see it',
  description:
    'Instructions and messages as they are sent, with summaries, placeholders and notices. What waits is not in it: it comes after this. ' +
    'A page has fewer messages than its limit where they are large.',
  request: { params: idParams('session'), query: z.strictObject({ after: afterField, limit: limitField }) },
  responses: { 200: jsonOf(viewBody, 'A page of the request.'), ...REFUSED, ...NOT_FOUND },
});
