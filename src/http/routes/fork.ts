import { createRoute, z } from '@hono/zod-openapi';
import { MAX_BODY_BYTES } from '../../domain/tunables.ts';
import { forkSession } from '../../store/changes/fork.ts';
import { refuseOverStorage } from '../../store/session/quota.ts';
import { idField, idParams, metadataField, noQuery, titleField } from '../bodies/fields.ts';
import { optionalJsonBody } from '../bodies/json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import { sessionBody, toSessionBody } from '../bodies/session-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { limitBody } from '../middleware/body-limit.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';

const forkRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/fork',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'forkSession',
  tags: ['sessions'],
  summary: 'Go on from an earlier message in a session of its own',
  description:
    'Copies the transcript up to and including `atMessage`, or all that is finished, with its agent, compactions and files. What waits, runs and events stay with the other session, which is not changed.',
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

export function registerForkRoute(app: BatonApp, { db, newId, quota }: HttpDeps): void {
  app.openapi(forkRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { atMessage, title, metadata } = c.req.valid('json') ?? {};
    const asked = { route: forkRoute, request: { sessionId, atMessage, title, metadata }, answer: sessionBody };
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      const at = { tenantId: tenantOf(c), sessionId, forkId: newId(), atMessageId: atMessage ?? null };
      await refuseOverStorage(tx, tenantOf(c), quota);
      await auditRequest(tx, c, 'session:fork');
      return toSessionBody(await forkSession(tx, { ...at, title, metadata }));
    });
    return c.json(body, 201, { location: `/v1/sessions/${body.id}`, ...headers });
  });
}
