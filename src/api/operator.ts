import { createRoute, z } from '@hono/zod-openapi';
import { ERROR_CODES } from '../domain/errors.ts';
import { RUN_KINDS, RUN_STATUSES } from '../domain/run/run.ts';
import { cursorField } from './cursor.ts';
import { limitField, textField } from './fields.ts';
import { costBody, jsonOf, nextCursorBody, orNull, REFUSED, timeBody, usageBody } from './responses.ts';
import { waitBody } from './session-body.ts';

export const operatorRunBody = z
  .object({
    id: z.string(),
    sessionId: z.string(),
    tenant: z.string(),
    agent: z.string(),
    kind: z.enum(RUN_KINDS),
    status: z.enum(RUN_STATUSES),
    reason: z.string().nullable(),
    errorCode: z.enum(ERROR_CODES).nullable(),
    steps: z.int(),
    usage: usageBody,
    costUsd: costBody,
    createdAt: timeBody,
    startedAt: timeBody.nullable(),
    finishedAt: timeBody.nullable(),
    waitsFor: orNull(waitBody).openapi({
      description: 'Cause for which the run waits. null also while calls wait for a person, because calls are content.',
    }),
  })
  .openapi('OperatorRun');

export const listAllRunsRoute = createRoute({
  method: 'get',
  path: '/v1/operator/runs',
  operationId: 'listAllRuns',
  tags: ['operator'],
  summary: 'List the runs of all tenants, newest first',
  description: 'States, counts and causes, without contents of conversations. The key needs the scope `operator`.',
  request: {
    query: z.strictObject({
      cursor: cursorField('runs'),
      limit: limitField,
      status: z.enum(RUN_STATUSES).optional(),
      tenant: textField(200).min(1).optional(),
    }),
  },
  responses: {
    200: jsonOf(z.object({ runs: z.array(operatorRunBody), nextCursor: nextCursorBody }), 'A page of runs.'),
    ...REFUSED,
  },
});
