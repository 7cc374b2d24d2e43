import { createRoute, z } from '@hono/zod-openapi';
import { CACHE_BREAKS, STEP_STATES } from '../domain/run/step-log.ts';
import { FINISH_REASONS } from '../domain/transcript/message.ts';
import { TOOL_CALL_STATES } from '../domain/transcript/tool-call.ts';
import { afterField, idParams, limitField } from './fields.ts';
import { costBody, jsonOf, NOT_FOUND, orNull, REFUSED, timeBody, usageBody } from './responses.ts';
import { errorBody } from './run-body.ts';

const ms = z.int().nullable();

const stepRow = z
  .object({
    kind: z.literal('step'),
    step: z.int(),
    attempt: z.int(),
    messageId: z.string(),
    seq: z.int().openapi({ description: 'Place of the step’s message in the transcript.' }),
    state: z.enum(STEP_STATES).openapi({
      description:
        '`waiting`: the step waits for answers to calls. `retried`, `superseded`: another row has the next attempt.',
    }),
    queuedAt: timeBody.nullable(),
    startedAt: timeBody.openapi({ description: 'Time at which a worker had claimed the step.' }),
    finishedAt: timeBody.nullable(),
    waitedMs: ms,
    claimMs: ms,
    viewMs: ms.openapi({ description: 'Milliseconds until the request was ready.' }),
    firstTokenMs: ms.openapi({ description: 'Milliseconds from the request to the first sign of an answer.' }),
    streamMs: ms.openapi({ description: 'Milliseconds from the first sign of an answer to its end.' }),
    commitMs: ms.openapi({ description: 'Milliseconds from the last outcome to the end of the step.' }),
    workers: z
      .array(z.string())
      .openapi({ description: 'Worker that began the step, and a worker that recovered it.' }),
    model: z.string().nullable(),
    finishReason: z.enum(FINISH_REASONS).nullable(),
    usage: orNull(usageBody),
    costUsd: costBody,
    context: z
      .object({ usedTokens: z.int(), usableTokens: z.int() })
      .nullable()
      .openapi({ description: 'Size of the request, as measured before it was sent.' }),
    cachedShare: z
      .number()
      .nullable()
      .openapi({ description: 'Share of the input tokens that the provider read from its cache.' }),
    cacheBreak: z.enum(CACHE_BREAKS).nullable().openapi({
      description: 'Reason why the provider read less than half of what its cache had of the step before.',
    }),
    tools: z.array(
      z.object({
        id: z.string(),
        toolName: z.string(),
        state: z.enum(TOOL_CALL_STATES),
        startedAt: timeBody.nullable(),
        finishedAt: timeBody.nullable(),
        truncated: z.boolean(),
      }),
    ),
    error: orNull(errorBody),
    nextAttemptAt: timeBody.nullable(),
  })
  .openapi('StepRow');

const compactionRow = z
  .object({
    kind: z.literal('compaction'),
    round: z.int(),
    strategy: z.string(),
    reason: z.string(),
    state: z.string(),
    tokensBefore: z.int(),
    tokensAfter: z.int().nullable(),
    costUsd: costBody,
    error: orNull(errorBody),
    adapted: z.string().nullable().openapi({
      description: 'Changes of the request for the summary after the provider had refused its form. null: none.',
    }),
    startedAt: timeBody,
    finishedAt: timeBody.nullable(),
  })
  .openapi('CompactionRow');

const pruneRow = z
  .object({
    kind: z.literal('prune'),
    prunedCount: z.int(),
    savedTokens: z.int(),
    prunedTools: z.array(z.string()),
    at: timeBody,
  })
  .openapi('PruneRow');

export const stepPageBody = z
  .object({
    runId: z.string(),
    sessionId: z.string(),
    rows: z.array(z.discriminatedUnion('kind', [stepRow, compactionRow, pruneRow])),
    next: z.int().nullable().openapi({ description: 'Value to pass as `after` for the next page. null at the end.' }),
  })
  .openapi('StepPage', {
    example: {
      runId: 'run_0199c0ffee007000800000000000000a',
      sessionId: 'ses_0199c0ffee007000800000000000000a',
      rows: [
        {
          kind: 'prune',
          prunedCount: 12,
          savedTokens: 30_211,
          prunedTools: ['grep'],
          at: '2026-01-31T12:00:00.000Z',
        },
      ],
      next: null,
    },
  });

export const listStepsRoute = createRoute({
  method: 'get',
  path: '/v1/runs/{id}/steps',
  operationId: 'listSteps',
  tags: ['runs'],
  summary: 'List the steps of a run with the duration of each phase',
  description:
    'A row for each attempt at a step, each compaction and each prune, in the order in which they began. The phases of a step ' +
    'follow each other: `queuedAt`, `waitedMs`, `startedAt`, `claimMs`, `viewMs`, `firstTokenMs`, `streamMs`, its calls by their ' +
    'own times, `commitMs`, `finishedAt`. A phase is null where it is not known: the step works, its worker died, or the events of ' +
    'the session were trimmed. A page has all attempts at each of its steps; `limit` counts steps.',
  request: { params: idParams('run'), query: z.strictObject({ after: afterField, limit: limitField }) },
  responses: { 200: jsonOf(stepPageBody, 'A page of the steps.'), ...REFUSED, ...NOT_FOUND },
});
