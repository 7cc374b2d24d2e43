import { createRoute, z } from '@hono/zod-openapi';
import { MAX_BODY_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { idField, idParams, metadataField, noQuery, titleField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { optionalJsonBody } from './json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';
import { sessionBody } from './session-body.ts';

export const forkSessionRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/fork',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'forkSession',
  tags: ['sessions'],
  summary: 'Copy a session up to a message into a new one',
  description:
    'Copies the transcript up to and including `atMessage`, or all finished messages, with agent, compactions and files. Queued messages, runs and events stay with the other session, which is not changed.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: optionalJsonBody(
      z
        .strictObject({
          atMessage: idField('message').optional(),
          title: titleField.nullable().optional(),
          metadata: metadataField.optional(),
        })
        .openapi('Fork'),
    ),
  },
  responses: {
    201: jsonOf(sessionBody, 'The new session.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
