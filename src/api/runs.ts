import { createRoute, z } from '@hono/zod-openapi';
import { RUN_STATUSES } from '../domain/run/run.ts';
import { cursorField } from './cursor.ts';
import { idParams, limitField, MAX_WAIT_MS, noQuery, numberField, sessionRefField } from './fields.ts';
import { idsField } from './list-fields.ts';
import { jsonOf, NOT_FOUND, nextCursorBody, REFUSED } from './responses.ts';
import { runBody } from './run-body.ts';

const tags = ['runs'];

export const DEFAULT_WAIT_MS = 30_000;

export const listRunsRoute = createRoute({
  method: 'get',
  path: '/v1/runs',
  operationId: 'listRuns',
  tags,
  summary: 'List runs, newest first',
  description: '`ids` is for lists that read some of their rows again; no other filter applies then.',
  request: {
    query: z.strictObject({
      cursor: cursorField('runs'),
      limit: limitField,
      status: z.enum(RUN_STATUSES).optional(),
      sessionId: sessionRefField.optional().openapi({ description: 'Session whose runs to list, by its id or key.' }),
      ids: idsField('run'),
    }),
  },
  responses: {
    200: jsonOf(z.object({ runs: z.array(runBody), nextCursor: nextCursorBody }), 'A page of runs.'),
    ...REFUSED,
  },
});

export const getRunRoute = createRoute({
  method: 'get',
  path: '/v1/runs/{id}',
  operationId: 'getRun',
  tags,
  summary: 'Read a run',
  request: { params: idParams('run'), query: noQuery },
  responses: { 200: jsonOf(runBody, 'The run.'), ...REFUSED, ...NOT_FOUND },
});

export const waitForRunRoute = createRoute({
  method: 'get',
  path: '/v1/runs/{id}/wait',
  operationId: 'waitForRun',
  tags,
  summary: 'Wait until a run has ended',
  description: `Answers when the run has ended or waits for a person or a client, or with the run as it is when the time is up: after \`timeoutMs\`, ${DEFAULT_WAIT_MS} by default and at most ${MAX_WAIT_MS}.`,
  request: {
    params: idParams('run'),
    query: z.strictObject({
      timeoutMs: numberField(
        0,
        MAX_WAIT_MS,
        `The longest wait in milliseconds; ${DEFAULT_WAIT_MS} by default.`,
      ).optional(),
    }),
  },
  responses: { 200: jsonOf(runBody, 'The run: look at its status.'), ...REFUSED, ...NOT_FOUND },
});
