import { createRoute, z } from '@hono/zod-openapi';
import { formatId } from '../../domain/ids.ts';
import { type Reverted, revertSession, unrevertSession } from '../../store/changes/revert.ts';
import { idField, idParams, noQuery } from '../bodies/fields.ts';
import { emptyBody, jsonBody } from '../bodies/json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';

const revertedBody = z
  .object({
    sessionId: z.string(),
    messageId: z.string().openapi({ description: 'The last message that stayed.' }),
    messages: z.int().openapi({ description: 'How many left the transcript, or came back, after it.' }),
  })
  .openapi('RevertedSession');

const revert = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/revert',
  operationId: 'revertSession',
  tags: ['sessions'],
  summary: 'Take what came after a message out of a session',
  description:
    'Transcript and view end with `toMessage` then, also where a compaction lay in between. Nothing is deleted: runs, usage and events stay, and `unrevert` undoes it. Effects of tools are not undone. Messages that wait still wait. Refused while a run is active.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(z.strictObject({ toMessage: idField('message') }).openapi('Revert')),
  },
  responses: {
    200: jsonOf(revertedBody, 'What has left; no message, where none came after it.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

const unrevert = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/unrevert',
  operationId: 'unrevertSession',
  tags: ['sessions'],
  summary: 'Undo the last revert of a session',
  description:
    'Several reverts are undone one by one, the newest first. Once a message has come after a revert, that one stays.',
  request: { params: idParams('session'), query: noQuery, headers: idempotencyHeader, body: emptyBody },
  responses: {
    200: jsonOf(revertedBody, 'What has come back.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

/** Takes the end of a session's transcript away, and brings it back. */
export function registerRevertRoutes(app: BatonApp, { db, bus }: HttpDeps): void {
  app.openapi(revert, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { toMessage } = c.req.valid('json');
    const asked = { route: revert, request: { sessionId, toMessage }, answer: revertedBody };
    let done: Reverted | undefined;
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      done = await revertSession(tx, { tenantId: tenantOf(c), sessionId, messageId: toMessage });
      await auditRequest(tx, c, 'session:revert');
      return toBody(sessionId, done);
    });
    if (typeof done?.eventSeq === 'number') bus.announce(sessionId, done.eventSeq);
    return c.json(body, 200, headers);
  });

  app.openapi(unrevert, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const asked = { route: unrevert, request: { sessionId }, answer: revertedBody };
    let done: Reverted | undefined;
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      done = await unrevertSession(tx, { tenantId: tenantOf(c), sessionId });
      await auditRequest(tx, c, 'session:unrevert');
      return toBody(sessionId, done);
    });
    if (typeof done?.eventSeq === 'number') bus.announce(sessionId, done.eventSeq);
    return c.json(body, 200, headers);
  });
}

const toBody = (sessionId: string, { messageId, messages }: Reverted): z.infer<typeof revertedBody> => ({
  sessionId: formatId('session', sessionId),
  messageId: formatId('message', messageId),
  messages,
});
