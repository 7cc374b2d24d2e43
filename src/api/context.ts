import { createRoute, z } from '@hono/zod-openapi';
import { TOKEN_KINDS } from '../domain/context/meter/measure.ts';
import { idParams, noQuery } from './fields.ts';
import { emptyBody } from './json-body.ts';
import { BODY_REFUSED, costBody, jsonOf, NOT_FOUND, orNull, REFUSED, timeBody, usageBody } from './responses.ts';
import { errorBody } from './run-body.ts';

const tags = ['context'];

const tokens = z.number().int();

export const contextBody = z
  .object({
    model: z.string(),
    window: tokens.openapi({ description: 'Tokens of input and output together.' }),
    guessed: z.boolean().openapi({
      description: 'True: no source names the window of the model, and no call has shown it yet.',
    }),
    usable: tokens.openapi({ description: 'Tokens that a request may hold.' }),
    used: tokens.openapi({
      description: 'Tokens of the next request, as everything that acts on the context counts them.',
    }),
    share: z.number().openapi({ description: '`used / usable`.' }),
    complete: z.boolean().openapi({
      description:
        'False: the session has so many messages that only the newest 2000 were measured. Without an `anchor` more tokens are used then.',
    }),
    byKind: z.object(Object.fromEntries(TOKEN_KINDS.map((kind) => [kind, tokens]))),
    thresholds: z.record(z.string(), z.number()),
    anchor: z
      .object({ messageSeq: z.int(), inputTokens: tokens, outputTokens: tokens })
      .nullable()
      .openapi({ description: 'Call whose bill `used` rests on. null: `used` is an estimate only.' }),
    strategy: z.string(),
    warning: z.string().nullable().openapi({
      description:
        'Reason why compactions wait for more than their threshold, and what to change. null: they do not wait.',
    }),
    compactingSince: timeBody.nullable(),
    compactionSums: z
      .object({
        completed: z.number().int(),
        failed: z.number().int().openapi({ description: 'Compactions that left the context as it was.' }),
        costUsd: costBody,
        failedCostUsd: costBody.openapi({ description: 'Cost of the failed ones, a part of `costUsd`.' }),
      })
      .openapi({ description: 'All ended compactions of the session. `compactions` lists the latest ones.' }),
    compactions: z.array(
      z.object({
        round: z.number().int(),
        strategy: z.string(),
        reason: z.string(),
        state: z.string(),
        tokensBefore: tokens,
        tokensAfter: tokens.nullable(),
        fromSeq: z.int().openapi({ description: 'First message that was compacted.' }),
        uptoSeq: z.int().openapi({ description: 'Last message that was compacted.' }),
        summaryMessageId: z
          .string()
          .nullable()
          .openapi({ description: 'Id of the summary, which stands for the compacted messages.' }),
        usage: orNull(usageBody),
        attempts: z.number().int(),
        costUsd: costBody,
        error: orNull(errorBody),
        startedAt: timeBody,
        finishedAt: timeBody.nullable(),
      }),
    ),
  })
  .openapi('Context');

export const getContextRoute = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/context',
  operationId: 'getContext',
  tags,
  summary: 'Read how full the context of a session is',
  request: { params: idParams('session'), query: noQuery },
  responses: { 200: jsonOf(contextBody, 'The meter, and the latest compactions.'), ...REFUSED, ...NOT_FOUND },
});

export const maintenanceBody = z
  .object({
    sessionId: z.string(),
    runId: z.string(),
    queued: z.boolean().openapi({ description: 'A run is at work. The work is done before its next step.' }),
  })
  .openapi('Maintenance');

const maintenanceRoute = <Path extends string>(path: Path, operationId: string, summary: string) =>
  createRoute({
    method: 'post',
    path,
    operationId,
    tags,
    summary,
    description: 'Done at once if the session is idle, otherwise before the next step of its run.',
    request: { params: idParams('session'), query: noQuery, body: emptyBody },
    responses: {
      202: jsonOf(maintenanceBody, 'Accepted.'),
      ...REFUSED,
      ...BODY_REFUSED,
      ...NOT_FOUND,
    },
  });

export const compactSessionRoute = maintenanceRoute(
  '/v1/sessions/{id}/compact',
  'compactSession',
  'Replace the older part of the context by a summary',
);

export const pruneSessionRoute = maintenanceRoute(
  '/v1/sessions/{id}/prune',
  'pruneSession',
  'Clear old tool outputs from the context',
);
