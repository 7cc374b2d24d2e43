import { createRoute, z } from '@hono/zod-openapi';
import { RUN_STATUSES } from '../domain/run/run.ts';
import { idParams, MAX_WAIT_MS, numberField } from './fields.ts';
import { emptyBody, optionalJsonBody } from './json-body.ts';
import { BODY_REFUSED, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';
import { runBody } from './run-body.ts';

const tags = ['cancel'];

const cancelledSession = z
  .object({
    sessionId: z.string(),
    runId: z.string().nullable(),
    status: z.enum([...RUN_STATUSES, 'idle']).openapi({ description: 'Status of the run. `idle`: none was active.' }),
  })
  .openapi('CancelledSession');

const waitQuery = z.strictObject({
  wait: numberField(0, MAX_WAIT_MS, 'Milliseconds to wait for the run to end; 0 by default.').optional(),
});

export const cancelSessionRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/cancel',
  operationId: 'cancelSession',
  tags,
  summary: 'Cancel the active run of a session',
  description: 'Queued messages stay, unless the queue is to be cleared. Nothing to cancel is no error.',
  request: {
    params: idParams('session'),
    query: waitQuery,
    body: optionalJsonBody(z.strictObject({ queue: z.enum(['keep', 'clear']).optional() })),
  },
  responses: {
    200: jsonOf(cancelledSession, 'Nothing runs any more.'),
    202: jsonOf(cancelledSession, 'The worker was told to stop.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
  },
});

export const cancelRunRoute = createRoute({
  method: 'post',
  path: '/v1/runs/{id}/cancel',
  operationId: 'cancelRun',
  tags,
  summary: 'Cancel a run',
  description: 'A run that has ended stays as it is.',
  request: {
    params: idParams('run'),
    query: waitQuery,
    body: emptyBody,
  },
  responses: {
    200: jsonOf(runBody, 'The run has ended.'),
    202: jsonOf(runBody, 'The worker was told to stop.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
  },
});
