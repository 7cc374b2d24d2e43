import { createRoute, z } from '@hono/zod-openapi';
import { RUN_STATUSES } from '../domain/run/run.ts';
import { idParams, noQuery } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { optionalJsonBody } from './json-body.ts';
import { limitsBody } from './limits-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';

export const resumedBody = z.object({ runId: z.string(), status: z.enum(RUN_STATUSES) }).openapi('ResumedSession');

export const resumeSessionRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/resume',
  operationId: 'resumeSession',
  tags: ['messages'],
  summary: 'Resume a stopped session',
  description:
    'Takes up messages that a failed or cancelled run left behind, or goes on without any where the last run failed, was cancelled or reached a limit. While the session only tidies itself up, the run follows that. It has the limits that the run was given which stopped, counted anew, but for those that are named here.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: optionalJsonBody(z.strictObject({ limits: limitsBody.optional() }).openapi('Resume')),
  },
  responses: {
    202: jsonOf(resumedBody, 'The run that goes on.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
