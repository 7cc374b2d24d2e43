import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { afterCancelled, afterChanged } from '../../commands/after-commit.ts';
import { formatId } from '../../domain/ids.ts';
import { DELIVERIES } from '../../domain/run/session.ts';
import { MAX_CONTENT_BODY_BYTES } from '../../domain/tunables.ts';
import { changeWaiting, type Removal, removeWaiting } from '../../store/changes/waiting.ts';
import { inTransaction } from '../../store/db/database.ts';
import { findSession } from '../../store/session/sessions.ts';
import { countWaiting, listWaiting, readWaiting, type WaitingMessage } from '../../store/session/waiting-messages.ts';
import { contentField, toParts } from '../bodies/content-field.ts';
import { cursorField, toCursor } from '../bodies/cursor.ts';
import { idField, idParams, limitField, noQuery } from '../bodies/fields.ts';
import { jsonBody } from '../bodies/json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, nextCursorBody, REFUSED, timeBody } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { limitBody } from '../middleware/body-limit.ts';

const tags = ['queue'];

const itemParams = z.strictObject({
  id: idField('session').openapi({ param: { name: 'id', in: 'path', required: true } }),
  messageId: idField('message').openapi({ param: { name: 'messageId', in: 'path', required: true } }),
});

export const waitingBody = z
  .object({
    id: z.string(),
    position: z.int(),
    delivery: z.enum(DELIVERIES),
    content: z.array(z.unknown()),
    enqueuedAt: timeBody,
  })
  .openapi('WaitingMessage');
const queuePage = z.object({ messages: z.array(waitingBody), nextCursor: nextCursorBody }).openapi('QueuePage');

const list = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/queue',
  operationId: 'listQueue',
  tags,
  summary: 'List the messages that wait to be taken up',
  description:
    'Also those that a failed or cancelled run left behind: the next message or `resume` takes them along. A page has fewer messages than its limit where they are large.',
  request: {
    params: idParams('session'),
    query: z.strictObject({ cursor: cursorField('queue'), limit: limitField }),
  },
  responses: { 200: jsonOf(queuePage, 'In the order in which they will be taken up.'), ...REFUSED, ...NOT_FOUND },
});

const get = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/queue/{messageId}',
  operationId: 'getQueuedMessage',
  tags,
  summary: 'Read a message that waits',
  request: { params: itemParams, query: noQuery },
  responses: { 200: jsonOf(waitingBody, 'The message.'), ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});

const change = createRoute({
  method: 'patch',
  path: '/v1/sessions/{id}/queue/{messageId}',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'changeQueuedMessage',
  tags,
  summary: 'Change a message that waits',
  description: 'What it says, or whether it joins the active run (`steer`) or waits for its end (`followup`).',
  request: {
    params: itemParams,
    query: noQuery,
    body: jsonBody(
      z
        .strictObject({ content: contentField.optional(), delivery: z.enum(['steer', 'followup']).optional() })
        .openapi('WaitingMessageChange', { example: { content: 'Only the Markdown files.', delivery: 'steer' } }),
    ),
  },
  responses: {
    200: jsonOf(waitingBody, 'The message as it waits now.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

const remove = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}/queue/{messageId}',
  operationId: 'removeQueuedMessage',
  tags,
  summary: 'Remove a message that waits',
  request: { params: itemParams, query: noQuery },
  responses: { 204: { description: 'It will not be taken up.' }, ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});

const clear = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}/queue',
  operationId: 'clearQueue',
  tags,
  summary: 'Remove all messages that wait',
  request: { params: idParams('session'), query: noQuery },
  responses: {
    200: jsonOf(z.object({ removed: z.array(z.string()) }), 'Their ids, in their order.'),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

export function registerQueueRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, bus, newId } = deps;
  const removeAndTell = async (c: Context<HttpEnv>, sessionId: string, messageId: string | null): Promise<Removal> => {
    const removal = await inTransaction(db, async (tx) => {
      const removed = await removeWaiting(tx, { tenantId: tenantOf(c), sessionId, messageId });
      await auditRequest(tx, c, messageId === null ? 'queue:clear' : 'message:remove');
      return removed;
    });
    if (removal.cancelled !== null) await afterCancelled(deps, removal.cancelled);
    await afterChanged(deps, sessionId, removal);
    return removal;
  };

  app.openapi(list, async (c) => {
    const { id } = c.req.valid('param');
    const { cursor, limit } = c.req.valid('query');
    await findSession(db, tenantOf(c), id);
    const messages = await listWaiting(db, tenantOf(c), id, { afterSeq: cursor?.seq ?? 0, limit });
    const last = messages.at(-1);
    const isAll = last === undefined || last.position >= (await countWaiting(db, tenantOf(c), id));
    const nextCursor = isAll ? null : toCursor({ list: 'queue', seq: last.seq });
    return c.json({ messages: messages.map(toWaitingBody), nextCursor }, 200);
  });

  app.openapi(get, async (c) => {
    const { id, messageId } = c.req.valid('param');
    return c.json(toWaitingBody(await readWaiting(db, { tenantId: tenantOf(c), sessionId: id, messageId })), 200);
  });

  app.openapi(change, async (c) => {
    const { id, messageId } = c.req.valid('param');
    const { content, delivery } = c.req.valid('json');
    const { inboxLimits } = deps;
    const changed = { content: content === undefined ? undefined : toParts(content), delivery, inboxLimits };
    const ref = { tenantId: tenantOf(c), sessionId: id, messageId };
    const { message, eventSeq } = await inTransaction(db, async (tx) => {
      const done = await changeWaiting(tx, ref, changed, newId());
      await auditRequest(tx, c, 'message:change');
      return done;
    });
    bus.announce(id, eventSeq);
    return c.json(toWaitingBody(message), 200);
  });

  app.openapi(remove, async (c) => {
    const { id, messageId } = c.req.valid('param');
    await removeAndTell(c, id, messageId);
    return c.body(null, 204);
  });

  app.openapi(clear, async (c) => {
    const { id } = c.req.valid('param');
    const { ids } = await removeAndTell(c, id, null);
    return c.json({ removed: ids.map((removed) => formatId('message', removed)) }, 200);
  });
}

function toWaitingBody(message: WaitingMessage): z.infer<typeof waitingBody> {
  return {
    id: formatId('message', message.id),
    position: message.position,
    delivery: message.delivery,
    content: message.content,
    enqueuedAt: message.enqueuedAt.toISOString(),
  };
}
